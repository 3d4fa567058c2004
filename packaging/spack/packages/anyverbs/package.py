# SPDX-License-Identifier: MIT
# spack repo add packaging/spack && spack install anyverbs
from spack.package import *


class Anyverbs(CMakePackage):
    """RDMA verbs without RDMA hardware: a host channel adapter made of software and shared memory,
    behind the public interface of libibverbs."""

    homepage = "https://github.com/anyverbs/anyverbs"
    git = "https://github.com/anyverbs/anyverbs.git"

    license("MIT")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("perl", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("libdeflate")
    depends_on("ncurses")
    depends_on("rdma-core@39:")

    generator("ninja")
