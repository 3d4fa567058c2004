#!/bin/bash
# SPDX-License-Identifier: MIT
# What README.md, the workflows and the Containerfile say, done to the letter in a bare Debian (see
# test_deb.sh): by root, and by a user who may sudo. It takes some minutes.
# Usage: test_bare.sh SOURCE [SUITE OPTION...]
# With another suite, and mmdebstrap's options for it: README.md alone, in a bare system of that.
set -eu
source=$1
shift
most_megabytes=150 # of packages that building and the demonstration download
command -v mmdebstrap >/dev/null || {
	echo "no mmdebstrap here"
	exit 77
}
. /etc/os-release
suite=${1:-$VERSION_CODENAME}
parts=all
if [ $# -gt 0 ]; then
	parts=readme
	shift
fi
mmdebstrap --quiet --simulate "$@" "$suite" /dev/null >/dev/null || {
	echo "$suite cannot be had here"
	exit 77
}
trip=$(mktemp -d)
trap 'rm -rf "$trip"' EXIT
mkdir "$trip/trip"
cd "$trip/trip"
git clone -q --no-local "$source" anyverbs
workflow() {
	python3 -B "$source/tests/verbs/install/workflow.py" "$source/$1" "$source/action.yml"
}
# The commands of the README, from the clone to the end of that block.
sed -n '/^    git clone /,/^$/s/^    //p' "$source/README.md" >readme.sh
grep -q pair readme.sh
workflow docs/guide/anyverbs.yml >guide.sh
workflow .github/workflows/check.yml >check.sh
# The commands of the Containerfile's two stages.
for stage in 1 2; do
	awk -v stage=$stage '/^FROM/ { s++ } s == stage && /^RUN/ { on = 1 }
		s == stage && on { sub(/^RUN /, ""); print; on = /\\$/ }' \
		"$source/Containerfile" >image$stage.sh
	test -s image$stage.sh
done
cat >check-all.sh <<'CHECK'
set -eux
export DEBIAN_FRONTEND=noninteractive HOME=/root
echo '127.0.0.1 localhost' >/etc/hosts # every system that runs has it
git config --system url./trip/anyverbs.insteadOf https://github.com/anyverbs/anyverbs
git config --system safe.directory '*'

: the README by root, and the demonstration
mkdir /root/first
cd /root/first
SECONDS=0
bash -eux /trip/readme.sh
make -C anyverbs demo
megabytes=$(($(cat /var/cache/apt/archives/*.deb | wc -c) / 1000000))
: "the demonstration took $SECONDS s and downloaded $megabytes MB"
test "$megabytes" -lt "$1"
cmake --version

if [ "$2" = all ]; then
	: the image
	cp -r /trip/anyverbs /anyverbs
	cd /anyverbs
	bash -eux /trip/image1.sh
	cp -r /installed/. /
	cd /
	bash -eux /trip/image2.sh
	ANYVERBS_DIR=$(mktemp -d) anyverbs run -- ibv_devinfo -d any0 | grep PORT_ACTIVE
	rm -r /anyverbs
	xargs -a <(cd /installed && find . -type f) rm
fi

: the README and the workflows by a user
useradd --create-home --shell /bin/bash user
echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user
for script in readme $([ "$2" = readme ] || echo guide check); do
	work=$(mktemp -d)
	cp -r /trip/anyverbs "$work/action"
	chown -R user "$work"
	# actions/checkout leaves the runner in the checkout.
	sudo -u user env -C "$work$([ $script != check ] || echo /action)" \
		GITHUB_ACTION_PATH="$work/action" bash -eux /trip/$script.sh
done
sudo -u user env -C "$work/action" bash -c 'make && sudo make install && make && make clean'
touch /trip/passed
CHECK
mmdebstrap --quiet --variant=apt "$@" --include=git,ca-certificates,sudo,util-linux \
	--customize-hook="copy-in $trip/trip /" \
	--customize-hook="chroot \"\$1\" bash /trip/check-all.sh $most_megabytes $parts" \
	--customize-hook='test -e "$1/trip/passed"' \
	"$suite" - >/dev/null
