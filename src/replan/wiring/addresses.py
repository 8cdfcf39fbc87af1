"""Addresses of the model and the tool service, as the settings mean them."""

from __future__ import annotations

import re

from replan.config.sections import Llm, ToolService


def tool_endpoints(service: ToolService, *urls: str | None) -> list[str]:
    given = [url for url in urls if url]
    if "protocol" in service.model_fields_set and service.protocol == "grpc":
        # As the older service's file has it, where the protocol is said apart and the scheme says no more than "host".
        return [re.sub(r"^http(s?)://", r"grpc\1://", url, flags=re.IGNORECASE) for url in given]
    return given


def model_endpoint(llm: Llm, url: str | None) -> str | None:
    """An endpoint of models as it is asked: of a service over gRPC where the settings say so, whatever its scheme says."""
    if not url or llm.protocol != "grpc":
        return url
    from replan.llm.address import over_grpc

    return over_grpc(url)
