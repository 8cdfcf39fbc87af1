"""The messages of the protocol, from and to the values of `run.access`: field by field, by their names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from replan.core.data.pieces import in_pieces
from replan.core.data.strict_json import NotStorable, storable
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.files import read_json

pb: Any = importlib.import_module("replan.server.grpc.proto.replan.v1.replan_pb2")
SERVICE = "replan.v1.TaskService"
_JSON = "_json"
"""How the name of a field ends that holds JSON."""

B = TypeVar("B", bound=BaseModel)


class Misfit(InputError):
    """A request whose fields do not fit: which, and why."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self.fields = tuple(fields)
        super().__init__("; ".join(f"{name}: {why}" if name else why for name, why in fields))


def read(data: bytes, kind: Any) -> Any:
    """The message that was sent; `Misfit` for bytes that are none of that kind."""
    try:
        return kind.FromString(data)
    except Exception as error:
        raise Misfit([("", f"what was sent is no {kind.DESCRIPTOR.name}")]) from error


def values_of(message: Any) -> JsonObject:
    """What the message says: fields that are not set are left out."""
    found: JsonObject = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.name.endswith(_JSON):
            if value:
                found[field.name.removesuffix(_JSON)] = _json(field.name, value)
        elif _is_map(field):
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [values_of(one) if field.message_type else one for one in value]
        elif field.message_type is not None:
            found[field.name] = values_of(value)
        else:
            found[field.name] = value
    return found


def body(kind: type[B], values: Mapping[str, Any]) -> B:
    """The request as the use cases take it; `Misfit` says which fields are wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        raise Misfit([(".".join(map(str, one["loc"])), one["msg"]) for one in wrong]) from None


def filled(message: Any, value: Any) -> Any:
    """The message with what the value says: an object, or a model of the same field names."""
    values = _plain(value)
    for field in message.DESCRIPTOR.fields:
        if field.name.endswith(_JSON):
            _fill_json(message, field, values.get(field.name.removesuffix(_JSON)))
        elif (given := values.get(field.name)) is not None:
            _fill(message, field, given)
    return message


def _plain(value: Any) -> Any:
    """Its fields as they are: to copy what they hold is one call into C, of seconds where that has many values."""
    return dict(value) if isinstance(value, BaseModel) else value


def _fill(message: Any, field: Any, given: Any) -> None:
    inside = field.message_type
    if _is_map(field):
        getattr(message, field.name).update({storable(name): storable(one) for name, one in given.items()})
    elif field.is_repeated and inside is not None:
        for one in given:
            filled(getattr(message, field.name).add(), _named(one, inside))
    elif field.is_repeated:
        getattr(message, field.name).extend(map(_scalar, given))
    elif inside is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        filled(part, given)
    else:
        setattr(message, field.name, _scalar(given))


def _named(one: Any, kind: Any) -> Any:
    """A pair, as some values are told, by the names of the fields."""
    if isinstance(one, list | tuple):
        return {field.name: part for field, part in zip(kind.fields, one, strict=True)}
    return one


def _scalar(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _fill_json(message: Any, field: Any, given: Any) -> None:
    if given is None:
        return
    if field.is_repeated:
        getattr(message, field.name).extend(map(_large_json_text, given))
    else:
        setattr(message, field.name, _large_json_text(given))


def json_text(value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="null").decode()
    except ValueError:  # half a surrogate pair
        import json

        return json.dumps(value)


def _large_json_text(value: Any) -> str:
    """The same of what may be large: no call into C takes long."""
    try:
        return b"".join(in_pieces(value, _piece)[1]).decode()
    except (ValueError, NotStorable):
        return json_text(value)


def _piece(piece: Any, _: int) -> tuple[Any, bytes]:
    return piece, to_json(piece, inf_nan_mode="null")


def _json(name: str, text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise Misfit([(name, f"is no JSON that can be used: {error}")]) from None


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def event_bytes(wire: JsonObject) -> bytes:
    """An event as it goes out, from its JSON form."""
    event: bytes = pb.Event(
        seq=wire["seq"],
        task_id=storable(wire["task_id"]),
        ts=wire["ts"],
        round=wire["round"],
        type=wire["type"],
        data_json=json_text(wire["data"]),
    ).SerializeToString()
    return event


def encoder(kind: Any) -> Callable[[Any], bytes]:
    """What makes the bytes of a message of that kind from a value."""

    def encode(value: Any) -> bytes:
        made: bytes = filled(kind(), value).SerializeToString()
        return made

    return encode
