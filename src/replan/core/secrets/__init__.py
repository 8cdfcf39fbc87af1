"""What is secret, and how it is kept from sight: the one place that knows.

`schemas` says what a schema calls secret, `names` what a name or a look does, `settings` what a command line or a
configuration holds, `receivers` where secrets may go. `known` holds the values that are known to be secret and takes them out of texts and values, in all
the ways that `escapes` lists, by `index`. `masked` is a value that may be seen, while this process can still use what it stands for.
"""

from replan.core.masked import (
    MASK,
    Masked,
    SecretLost,
    as_seen,
    holds_lost,
    holds_masked,
    is_lost,
    is_mask,
    lost,
    plain,
    reveal,
    reveal_known,
    with_masks,
    without_masks,
)
from replan.core.secrets.keys import usable_key
from replan.core.secrets.known import NOTHING_SECRET, KnownSecrets, is_said
from replan.core.secrets.names import (
    is_secret_name,
    is_secret_parameter,
    is_secret_setting,
    secret_places,
    secrets_of_headers,
    secrets_of_url,
    secrets_within,
    url_without_secrets,
    with_places,
)
from replan.core.secrets.pieces import Pieces
from replan.core.secrets.receivers import Receiver
from replan.core.secrets.said import secrets_said, without_secrets_said
from replan.core.secrets.schemas import (
    holds_secret,
    masked_parameters,
    may_say_secret,
    secret_names,
    secrets_in,
    secrets_of_schema,
    secrets_written_in,
    takes_secrets,
    with_secret_fields,
)
from replan.core.secrets.settings import (
    secrets_of_settings,
    secrets_of_text,
    settings_without_secrets,
    text_without_secrets,
)

__all__ = [
    "MASK",
    "NOTHING_SECRET",
    "KnownSecrets",
    "Masked",
    "Pieces",
    "Receiver",
    "SecretLost",
    "as_seen",
    "holds_lost",
    "holds_masked",
    "holds_secret",
    "is_lost",
    "is_mask",
    "is_said",
    "is_secret_name",
    "is_secret_parameter",
    "is_secret_setting",
    "lost",
    "masked_parameters",
    "may_say_secret",
    "plain",
    "reveal",
    "reveal_known",
    "secret_names",
    "secret_places",
    "secrets_in",
    "secrets_of_headers",
    "secrets_of_schema",
    "secrets_of_settings",
    "secrets_of_text",
    "secrets_of_url",
    "secrets_said",
    "secrets_within",
    "secrets_written_in",
    "settings_without_secrets",
    "takes_secrets",
    "text_without_secrets",
    "url_without_secrets",
    "usable_key",
    "with_masks",
    "with_places",
    "with_secret_fields",
    "without_masks",
    "without_secrets_said",
]
