#!/bin/bash
# SPDX-License-Identifier: MIT
# The packages of "make deb", installed into a bare Debian and used there.
# Usage: test_deb.sh SOURCE FOLDER-OF-PACKAGES
#
# The bare Debian is made by mmdebstrap, of the release that this machine runs, in half a minute: it
# needs no daemon, takes what is there to be installed from where apt takes it here, and works as an
# ordinary user where user namespaces are permitted. All is done in its hooks, in the chroot that it
# makes, and nothing is kept.
set -eu
source=$1 packages=$2
command -v mmdebstrap >/dev/null || {
	echo "no mmdebstrap here"
	exit 77
}
ls "$packages"/*.deb >/dev/null
. /etc/os-release
trip=$(mktemp -d)
trap 'rm -rf "$trip"' EXIT
mkdir "$trip/trip"
cp "$packages"/*.deb "$trip/trip"
cp -r "$source/tests/verbs/install" "$source/examples" "$trip/trip"
cat >"$trip/trip/check.sh" <<'CHECK'
set -eux
export DEBIAN_FRONTEND=noninteractive
cd /trip
libdir=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
dpkg-query -W libibverbs1 2>/dev/null && exit 1 # what we depend on is not there by chance
apt-get install -y -q --no-install-recommends ./libanyverbs1_*.deb ./anyverbs_*.deb
test "$(anyverbs run -- env | grep -c '^LD_PRELOAD=.*/libanyverbs.so.1')" = 1
apt-get install -y -q --no-install-recommends ./libanyverbs-dev_*.deb ibverbs-utils perftest
install/use.sh /usr "$libdir" /trip/install/consumer /trip/examples
# As somebody else than root, in a folder of his own, two programs of others.
cat >pair.sh <<'PAIR'
set -eux
export ANYVERBS_DIR=$(mktemp -d)
anyverbs doctor | tail -n 1
anyverbs run -- ibv_devinfo -d any0 | grep PORT_ACTIVE
timeout 60 anyverbs run -- ib_write_bw -d any0 -F -n 100 -p 18999 >server 2>&1 &
# Until it listens.
for i in $(seq 600); do
	grep -q ':4A37 .* 0A ' /proc/net/tcp /proc/net/tcp6 && break
	sleep 0.1
done
timeout 60 anyverbs run -- ib_write_bw -d any0 -F -n 100 -p 18999 127.0.0.1
wait
PAIR
install -d -o nobody /home/somebody
cd /home/somebody
setpriv --reuid=nobody --clear-groups env HOME=/home/somebody bash /trip/pair.sh
cd /trip
for package in libanyverbs1 anyverbs libanyverbs-dev; do
	test -z "$(dpkg -V $package)"
	dpkg -L $package >>files
done
test "$(find / -xdev -name libanyverbs.so.1 -path "$libdir/*" | wc -l)" = 1
apt-get purge -y -q anyverbs libanyverbs1 libanyverbs-dev
while read -r file; do
	case $file in *anyverbs*) test ! -e "$file" ;; esac
done <files
touch /trip/passed
CHECK
mmdebstrap --quiet --variant=apt \
	--include=gcc,libc6-dev,dpkg-dev,pkg-config,cmake,make,util-linux,diffutils \
	--customize-hook="copy-in $trip/trip /" \
	--customize-hook='chroot "$1" bash /trip/check.sh' \
	--customize-hook='test -e "$1/trip/passed"' \
	"$VERSION_CODENAME" - >/dev/null
