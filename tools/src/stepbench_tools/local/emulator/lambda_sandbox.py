"""
One Lambda sandbox of the embedded run is a runtime client with a lifeline to the emulator, confined as on Lambda.

For Python the client is AWS's own, for Node.js `lambda_client.mjs`.

Run by the interpreter that stands for Lambda's, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path

TMP_MB = 512
"""Lambda's default for /tmp, which the template leaves as it is."""
FILES = "FILES_FOLDER"
"""Variable with a folder that stands for EFS; it may be written to, as a mounted file system may."""
OPT, NODE, WRAPPER = "STEPBENCH_OPT", "STEPBENCH_NODE", "AWS_LAMBDA_EXEC_WRAPPER"
"""Variables with what is to be shown as /opt, with Node.js, and with the program that starts the runtime."""
NODE_HEAP_SHARE = 0.9
"""Of a function's memory, as on Lambda; the rest is for what is not on the heap."""
OPEN_FILES = 1024
"""Lambda's limit, which a function cannot raise."""

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION = 444, 445, 446, 1
_WRITE_FILE, _MAKE_AND_REMOVE, _REFER, _TRUNCATE = 1 << 1, sum(1 << bit for bit in range(4, 13)), 1 << 13, 1 << 14
_NO_NEW_PRIVS, _PR_SET_PDEATHSIG = 38, 1
CLIENT = "client"


def confine(folder: str, files: str = "", opt: str = "") -> str:
    """
    Make everything read-only except these folders, for this process and its children, for good; without root.

    A mount namespace answers as Lambda does (EROFS), and its folder is private and as large as Lambda's; that of files
    is shared, and `opt` is shown as /opt. Where the kernel or a container refuses namespaces, Landlock denies the same
    writes (EACCES), all folders are shared, and /opt is the machine's.

    Returns:
        `mounts`, `landlock`, or "" where the kernel has neither: then nothing is confined.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if _remount(libc, folder, files, opt):
        return "mounts"
    return "landlock" if _restrict(libc, folder, files) else ""


def _remount(libc: ctypes.CDLL, folder: str, files: str = "", opt: str = "") -> bool:
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS):
        if libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER):
            return False
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        try:
            for name, text in maps.items():
                Path("/proc/self", name).write_text(text)
        except OSError:
            return False
    size = f"size={TMP_MB}m,mode=700".encode()
    return not (
        libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
        or libc.mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
        or (files and libc.mount(files.encode(), files.encode(), None, _MS_BIND, None))
        or (opt and libc.mount(opt.encode(), b"/opt", None, _MS_BIND, None))
        or _set_read_only(libc, b"/", _AT_RECURSIVE, on=True)
        or _set_read_only(libc, folder.encode(), 0, on=False)
        or (files and _set_read_only(libc, files.encode(), 0, on=False))
    )


def _set_read_only(libc: ctypes.CDLL, path: bytes, flags: int, *, on: bool) -> int:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY if on else 0, 0 if on else _READ_ONLY, 0, 0)  # to set, to clear
    failed: int = libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path, flags, attributes, ctypes.sizeof(attributes))
    return failed


class _PathBeneath(ctypes.Structure):
    """Landlock's `landlock_path_beneath_attr`."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _restrict(libc: ctypes.CDLL, folder: str, files: str = "") -> bool:
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return False
    on_files = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)  # noqa: PLR2004 -- the ABI that brought it
    handled = on_files | _MAKE_AND_REMOVE | (_REFER if version >= 2 else 0)  # noqa: PLR2004 -- likewise
    rules = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    for path, allowed in ((folder, handled), (os.devnull, on_files), *(((files, handled),) if files else ())):
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_LANDLOCK_ADD_RULE, rules, 1, ctypes.byref(_PathBeneath(allowed, parent)), 0)
        os.close(parent)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    return not libc.syscall(_LANDLOCK_RESTRICT, rules, 0)


def hold_lifeline() -> None:
    """
    End this process when the emulator ends, however it ends: a writer must not outlive it.

    A connection to its Runtime API server that carries nothing costs nothing, and the kernel closes it with the
    emulator. (The parent-death signal would not do: it follows the parent's thread, and the emulator's threads end.)
    """
    host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
    lifeline = socket.create_connection((host, int(port)))
    threading.Thread(target=_await_end, args=(lifeline,), daemon=True, name="lifeline").start()


def _await_end(lifeline: socket.socket) -> None:
    with lifeline, contextlib.suppress(OSError):  # a reset is an end, too
        lifeline.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def guard_by_lifeline() -> None:
    """Have a child hold the lifeline of this process, which becomes another program; it ends with this process."""
    host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
    sandbox = os.getpid()
    with socket.create_connection((host, int(port))) as lifeline:
        if os.fork():
            return
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        held = os.dup2(lifeline.fileno(), 0)
        os.closerange(1, OPEN_FILES)  # the pipe of what the sandbox prints has to end with the sandbox
        while os.getppid() == sandbox and os.read(held, 1):
            pass
        if os.getppid() == sandbox:
            os.kill(sandbox, signal.SIGKILL)
        os._exit(0)


def sees_opt(*programs: str) -> bool:
    """Return whether /opt may be the function's layers here: it is a folder, and has none of these programs."""
    return Path("/opt").is_dir() and not any(os.path.realpath(each).startswith("/opt/") for each in programs)


def client_command(runtime: str, node: str) -> list[str]:
    """
    Return the program that serves invocations, and its arguments.

    Raises:
        SystemExit: there is no Node.js for a function of it.
    """
    if not runtime.startswith("nodejs"):
        return [sys.executable, "-P", __file__, CLIENT]
    if not node:
        sys.exit(f"a function for {runtime} needs Node.js, and none is on PATH; install it")
    heap_mb = int(NODE_HEAP_SHARE * int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")))
    return [node, f"--max-old-space-size={heap_mb}", str(Path(__file__).with_name("lambda_client.mjs"))]


def enter() -> None:
    """Confine this process; it goes on as AWS_LAMBDA_EXEC_WRAPPER or Node.js, if the function has either."""
    files = os.environ.get(FILES, "")  # the function's own, too
    opt, node = (os.environ.pop(name, "") for name in (OPT, NODE))
    seen = opt if sees_opt(sys.executable, sys.prefix, sys.base_prefix, node) else ""
    # Before any thread: a user namespace is for a process with one.
    by = confine(os.environ["TMPDIR"], files if Path(files).is_dir() else "", seen)
    if not by:
        sys.stderr.write("no namespaces and no Landlock here: a function may write to any file of this user's\n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    runtime = os.environ.get("AWS_EXECUTION_ENV", "").removeprefix("AWS_Lambda_")
    ours = "python{}.{}".format(*sys.version_info)
    if runtime.startswith("python") and runtime != ours:
        sys.stderr.write(f"this is {ours}, which stands for {runtime} here\n")
    command = client_command(runtime, node)
    if wrapper := os.environ.get(WRAPPER):
        if not (seen and by == "mounts"):
            wrapper = re.sub("^/opt/", f"{opt}/", wrapper)
        command = [wrapper, *command]
    if command[0] == sys.executable:
        return
    if command[-1] != CLIENT:
        guard_by_lifeline()
    os.execv(command[0], command)  # noqa: S606 -- as Lambda does


def main(*arguments: str) -> None:
    """Serve invocations until the emulator says otherwise; a wrapper starts this again, as `client`."""
    if not arguments:
        enter()
    hold_lifeline()
    import_module("awslambdaric.__main__").main(["awslambdaric", os.environ["_HANDLER"]])


if __name__ == "__main__":
    main(*sys.argv[1:])
