"""Writes an image as docker save does, which has this interpreter and programs: image.py FILE PROGRAM..."""

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tarfile

SKIPPED = {"test", "tests", "idlelib", "tkinter", "ensurepip", "site-packages", "dist-packages", "turtledemo", "__pycache__"}


def files():
    """Yields the files of the interpreter, with the libraries that they are linked to."""
    interpreter = os.path.realpath(sys.executable)
    linked = [interpreter]
    yield interpreter
    yield sys.executable
    stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
    for folder, folders, names in os.walk(stdlib):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.startswith("config-")]
        for name in names:
            path = os.path.join(folder, name)
            yield path
            if name.endswith(".so"):
                linked.append(path)
    for path in linked:
        for line in subprocess.run(["ldd", path], capture_output=True, text=True).stdout.splitlines():
            library = line.split("=>")[-1].split("(")[0].strip()
            if library.startswith("/"):
                yield library
    # The interpreter looks for its library where it is called, which may be a link.
    if os.path.realpath(sysconfig.get_path("stdlib")) != sysconfig.get_path("stdlib"):
        raise SystemExit("the standard library is behind a link")


def layer(programs):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        folders, seen = set(), set()

        def add(path, name, mode=None):
            parts = name.strip("/").split("/")
            for i in range(1, len(parts)):
                folder = "/".join(parts[:i])
                if folder not in folders:
                    folders.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(entry)
            entry = tarfile.TarInfo("/".join(parts))
            with open(path, "rb") as f:  # a link becomes the file
                entry.size = os.fstat(f.fileno()).st_size
                entry.mode = mode or (0o755 if os.access(path, os.X_OK) else 0o644)
                tar.addfile(entry, f)

        for path in files():
            if path not in seen:
                seen.add(path)
                add(path, path)
        for program in programs:
            add(program, "/app/" + os.path.basename(program), 0o755)
    return text.getvalue()


def main(file, *programs):
    data = layer(programs)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    config = json.dumps({
        "architecture": architecture, "os": "linux",
        "config": {"Entrypoint": ["/app/" + os.path.basename(programs[0])], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]},
    }).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["database:1"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(file, "w") as tar:
        for name, text in ("manifest.json", manifest), ("config.json", config), ("layer.tar", data):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))


main(*sys.argv[1:])
