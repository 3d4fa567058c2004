# SPDX-License-Identifier: MIT
"""
What the emulated machine starts from: Debian's kernel with its modules, unpacked and not installed,
and an initial file system of this machine's own programs with their libraries.
"""
import glob
import os
import re
import shutil
import stat
import subprocess

KERNEL = "linux-image-amd64"
UNPACKED = "kernel"
HEADER = "070701" + "%08X" * 13


class Unavailable(Exception):
    """The emulated machine cannot be had here."""


def output_of(*words, **how):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=True, **how).stdout


def kernel_package():
    """The package of the kernel itself, on which KERNEL depends."""
    try:
        text = output_of("apt-cache", "depends", KERNEL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable("no list of packages has %s" % KERNEL) from error
    found = re.search(r"Depends: (linux-image-\S+)", text)
    if not found:
        raise Unavailable("%s depends on no kernel" % KERNEL)
    return found.group(1)


def download(package, folder):
    try:
        output_of("apt-get", "download", package, cwd=folder)
    except subprocess.CalledProcessError as error:
        raise Unavailable("%s cannot be downloaded: %s" % (package, error.stdout.strip())) \
            from error
    return glob.glob(os.path.join(folder, package + "_*.deb"))[0]


def unpack(archive, into):
    """Kernel and modules; and where the modules are found among them."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as files:
        subprocess.run(["tar", "-x", "-C", into, "--wildcards", "./boot/vmlinuz-*",
                        "./lib/modules/*"], stdin=files.stdout, check=True)
    release = os.listdir(os.path.join(into, "lib/modules"))[0]
    subprocess.run(["depmod", "-b", into, release], check=True)


class Kernel:
    """Debian's kernel, unpacked below @cache, where it stays for the next time."""

    def __init__(self, cache):
        self.path = os.path.join(cache, UNPACKED)
        if not os.path.isdir(self.path):
            self.fetch(cache)
        self.image = glob.glob(os.path.join(self.path, "boot/vmlinuz-*"))[0]
        self.release = os.listdir(os.path.join(self.path, "lib/modules"))[0]

    def fetch(self, cache):
        """Under another name until all of it is there: it may be interrupted."""
        os.makedirs(cache, exist_ok=True)
        archive = download(kernel_package(), cache)
        part = self.path + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.mkdir(part)
        unpack(archive, part)
        os.remove(archive)
        os.rename(part, self.path)

    def modules(self, names):
        """Files of these modules and of all they need, in the order in which they are loaded."""
        files = []
        for name in names:
            for line in output_of("modprobe", "-d", self.path, "-S", self.release,
                                  "--show-depends", name).splitlines():
                found = re.match(r"insmod (.+\.ko(?:\.\w+)?)(?: |$)", line)
                if found and found[1] not in files:
                    files.append(found[1])
        return files


def libraries_of(path):
    """All that the dynamic linker would load; none for what is not for it."""
    done = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return re.findall(r"^\s+(?:\S+ => )?(/.+) \(0x", done.stdout, re.MULTILINE)


class Image:
    """Files of the initial file system by their names in it."""

    def __init__(self):
        self.files = {}    # name: (mode, content)
        for folder in ("proc", "sys", "dev", "tmp", "run"):
            self.folder(folder)

    def folder(self, name):
        if name and name not in self.files:
            self.folder(os.path.dirname(name))
            self.files[name] = (stat.S_IFDIR | 0o755, b"")

    def write(self, name, content, mode=0o644):
        name = name.lstrip("/")
        self.folder(os.path.dirname(name))
        self.files[name] = (stat.S_IFREG | mode, content)

    def copy(self, path, name=None):
        with open(path, "rb") as f:
            self.write(name or path, f.read(), 0o755)

    def program(self, path, name=None):
        """With its libraries."""
        self.copy(path, name)
        for library in libraries_of(path):
            if library.lstrip("/") not in self.files:
                self.copy(library)

    def save(self, path):
        """As the kernel unpacks it: an archive of cpio, format "newc", not compressed."""
        with open(path, "wb") as out:
            for number, (name, (mode, content)) in enumerate(self.files.items(), 1):
                write_member(out, number, name, mode, content)
            write_member(out, 0, "TRAILER!!!", 0, b"")


def write_member(out, inode, name, mode, content):
    """Name and content begin at multiples of 4."""
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    head = HEADER % (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    for part in (head.encode() + encoded, content):
        out.write(part + bytes(-len(part) % 4))
