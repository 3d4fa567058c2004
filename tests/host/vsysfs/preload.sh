#!/bin/bash
# SPDX-License-Identifier: MIT
# Unmodified programs in the virtual sysfs. Usage: preload.sh LIBANYVERBS
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0:guid=0200c0ffee001234:gids=4,mlx5_0:link=infiniband:lid=7:gids=1
ib=/sys/class/infiniband

if [ -e $ib ] || [ -e /dev/infiniband ]; then
	echo "this host has devices of its own: see real_devices.sh"
	exit 77
fi
require_preload

# python RULE EXPECTED TEXT
python() {
	prints "$1" "$2" python3 -c "$3"
}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export ANYVERBS_DIR=$copy # nothing runs there

prints cat "0200:c0ff:ee00:1234" cat $ib/any0/node_guid
prints cat_through_link "anyverbs" cat $ib/any0/device/infiniband/any0/board_id
prints cat_odp_statistics "0 0" \
	sh -c 'echo $(cat /sys/class/infiniband_verbs/uverbs1/num_page_faults \
		/sys/kernel/debug/mlx5/anyverbs.1/odp_stats/num_odp_mrs)'
prints cat_missing "cat: $ib/any0/nix: No such file or directory" cat $ib/any0/nix
prints ls_all "any0
mlx5_0" ls $ib
prints ls_long "-r--r--r-- 1 root root 4096 lid" \
	sh -c "ls -l $ib/any0/ports/1/ | sed -n 's/ [A-Z][a-z][a-z] .* lid\$/ lid/p'"
prints ls_long_device "crw-rw-rw- 1 root root 231, 193 uverbs1" \
	sh -c "ls -l /dev/infiniband | sed -n 's/ [A-Z][a-z][a-z] .* uverbs1\$/ uverbs1/p'"
bus=/sys/devices/platform
any0=platform/anyverbs.0/infiniband/any0
prints ls_long_class "lrwxrwxrwx 1 root root 49 any0 -> ../../devices/$any0" \
	sh -c "ls -l $ib | sed -n 's/ [A-Z][a-z][a-z] .* any0 / any0 /p'"
prints readlink ../../../anyverbs.1 readlink $ib/mlx5_0/device
prints readlink_of_a_class ../../devices/platform/anyverbs.1/infiniband/mlx5_0 readlink $ib/mlx5_0
prints readlink_canonical $bus/anyverbs.1 readlink -f $ib/mlx5_0/device
prints realpath "$bus/anyverbs.0/infiniband/any0
$bus/anyverbs.0/infiniband_verbs/uverbs0
$ib" realpath $ib/any0 /sys/class/infiniband_verbs/uverbs0/device/infiniband_verbs/uverbs0 \
	$ib/any0/subsystem
prints stat "symbolic link 777 directory 755 character special file 666" \
	sh -c "echo \$(stat -c '%F %a' $ib/any0 $ib/any0/. /dev/infiniband/uverbs0)"
prints find "$ib/any0/ports/1/lid
$ib/mlx5_0/ports/1/lid" sh -c "find $ib/*/ -name lid | sort"
prints find_by_type "/sys/class/infiniband_verbs/uverbs0
/sys/class/infiniband_verbs/uverbs1" sh -c 'find /sys/class/infiniband_verbs -type l | sort'
prints find_in_the_devices "$bus/anyverbs.0/infiniband/any0/node_guid" \
	find $bus/anyverbs.0 -name node_guid
prints file_system "sysfs" stat -f -c %T $ib/any0
prints above "any0
mlx5_0" sh -c "cd /sys/class && ls infiniband"
prints grep_recursive "$ib/mlx5_0/ports/1/lid:0x7" grep -rs 0x7 $ib/mlx5_0
prints du_walks "0" \
	sh -c "du -a $ib /sys/class/infiniband_verbs /sys/class/infiniband_mad >/dev/null; echo \$?"
gids=$ib/any0/ports/1/gids
prints bash_glob "$gids/0 $gids/1 $gids/2 $gids/3" \
	bash -c "echo $ib/any0/ports/*/gids/*"
prints bash_redirection "4: ACTIVE" \
	bash -c "read -r line <$ib/any0/ports/1/state && echo \"\$line\""
prints sh_redirection "4: ACTIVE" sh -c "read -r line <$ib/any0/ports/1/state && echo \"\$line\""
prints inherited_descriptor "4: ACTIVE" bash -c "exec 5<$ib/any0/ports/1/state; cat <&5"
prints bash_tests "yes yes yes" bash -c "
	[ -r /dev/infiniband/uverbs0 ] && [ -w /dev/infiniband/uverbs0 ] &&
		[ -c /dev/infiniband/uverbs0 ] && echo -n 'yes '
	[ -d $ib/any0 ] && [ -L $ib/any0 ] && [ -L $ib/any0/device ] &&
		[ -f $ib/any0/node_guid ] && echo -n 'yes '
	[ ! -w $ib/any0/node_guid ] && [ ! -e $ib/any0/nix ] && [ ! -e $ib/any1 ] && echo yes"
prints ls_long_cm "crw-rw-rw- 1 root root  10, 254 rdma_cm" \
	sh -c "ls -l /dev/infiniband | sed -n 's/ [A-Z][a-z][a-z] .* rdma_cm\$/ rdma_cm/p'"
prints cm_files "4 10:254 MAJOR=10 MINOR=254 DEVNAME=infiniband/rdma_cm" \
	sh -c 'cd /sys/class/misc/rdma_cm && echo $(cat abi_version dev uevent)'
python cm_by_netlink "0xafe 4 rdma_cm -2" "
import socket, struct
def ask(attrs):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20) # NETLINK_RDMA
    s.sendto(struct.pack('IHHII', 16 + len(attrs), 5 << 10 | 15, 1, 1, 0) + attrs, (0, 0))
    return s.recv(4096)
kind = struct.pack('HH8s', 12, 69, b'rdma_cm') # RDMA_NLDEV_ATTR_CHARDEV_TYPE
answer, at, found = ask(kind), 16, []
while at < len(answer):
    size, _ = struct.unpack_from('HH', answer, at)
    found.append(answer[at + 4:at + size])
    at += size + 3 & ~3
numbers = [b for b in found if len(b) == 8 and b[:7] != b'rdma_cm']
number, abi = (struct.unpack('Q', b)[0] for b in numbers)
name = [b for b in found if b[:7] == b'rdma_cm'][0].decode().strip(chr(0))
error, = struct.unpack_from('i', ask(struct.pack('HHI', 8, 1, 100000) + kind), 16)
print(hex(number), abi, name, error)"
python cm_writes "True EINVAL True" "
import errno, os, stat
fd = os.open('/dev/infiniband/rdma_cm', os.O_RDWR)
print(stat.S_ISCHR(os.fstat(os.dup(fd)).st_mode), end=' ')
try:
    os.write(fd, b'x')
except OSError as e:
    print(errno.errorcode[e.errno], end=' ')
os.close(fd)
print(os.open('/dev/null', os.O_RDWR) == fd and os.write(fd, b'x') == 1)"
prints uverbs_cannot_be_opened "cat: /dev/infiniband/uverbs0: No such device or address" \
	cat /dev/infiniband/uverbs0

prints sh_cd "$ib
any0
mlx5_0
0x7
2" sh -c "cd $ib && pwd -P && ls && cd mlx5_0/ports && cat 1/lid && cd ../.. && echo * | wc -w"
prints executed_programs_are_there_too "$bus/anyverbs.0/infiniband/any0 0200:c0ff:ee00:1234" \
	bash -c "cd $ib/any0 && echo \$(/bin/pwd) \$(bash -c 'cat node_guid')"
prints no_file_can_be_made_there "Permission denied" \
	bash -c "cd $ib/any0; { echo x >new; } 2>&1 | sed 's/.*: //'; ! ls new 2>/dev/null"
prints cp "0200:c0ff:ee00:1234" sh -c "cp $ib/any0/node_guid '$copy/guid' && cat '$copy/guid'"
prints cp_recursive "0x7" \
	sh -c "cp -r $ib/mlx5_0/ports '$copy' 2>/dev/null; cat '$copy/ports/1/lid'"

# Walks from the root, one descriptor after the other, and wants to find a sysfs.
if command -v udevadm >/dev/null; then
	prints udev_path "/devices/platform/anyverbs.1/infiniband/mlx5_0" \
		udevadm info -q path -p $ib/mlx5_0
	prints udev_parents "infiniband platform" sh -c "echo \$(udevadm info -a -p $ib/any0 |
		sed -n 's/.*SUBSYSTEMS*==\"\(..*\)\"/\1/p')"
fi
# So does hwloc, which shows adapters as objects.
if command -v lstopo-no-graphics >/dev/null; then
	prints hwloc "any0 mlx5_0" sh -c "echo \$(lstopo-no-graphics --of console --only osdev |
		sed -n 's/.*\(any0\|mlx5_0\).*/\1/p')"
fi
if command -v python3 >/dev/null; then
	python python_open "0200:c0ff:ee00:1234" "print(open('$ib/any0/node_guid').read(), end='')"
	python python_listdir "['any0', 'mlx5_0']" "import os; print(sorted(os.listdir('$ib')))"
	python python_scandir "[('any0', True, True), ('mlx5_0', True, True)]" \
		"import os
print(sorted((e.name, e.is_dir(), e.is_symlink()) for e in os.scandir('$ib')))"
	python python_stat "True" \
		"import os; f = open('$ib/any0/fw_ver')
print(os.stat(f.name) == os.fstat(f.fileno()))"
	python python_listdir_of_descriptor "['0']" \
		"import os; print(os.listdir(os.open('$ib/any0/ports/1/pkeys', os.O_RDONLY)))"
	python python_relative "b'6\\n'" \
		"import os; d = os.open('/sys/class/infiniband_verbs', os.O_RDONLY)
print(os.read(os.open('abi_version', os.O_RDONLY, dir_fd=d), 9))"
	python python_directory_of_a_child "b'0x7\n' /" "
import os, subprocess
os.chdir('/')
print(subprocess.run(['cat', 'lid'], cwd='$ib/mlx5_0/ports/1', capture_output=True).stdout,
      os.getcwd())"
	python python_walks_agree "True" \
		"import os; print([w[:3] for w in os.fwalk('$bus/anyverbs.0')] ==
    list(os.walk('$bus/anyverbs.0')))"
	python python_glob "1" "import glob; print(len(glob.glob('$ib/mlx5_0/ports/*/state')))"
	python python_net "True" \
		"import os; name = open('$ib/any0/ports/1/gid_attrs/ndevs/0').read().strip()
print(name in os.listdir('$ib/any0/device/net/'))"
	python python_errors "[21, 20, 13, 2, 22]" "
import os
def error(call):
    try:
        call()
    except OSError as e:
        return e.errno
print([error(lambda: open('$ib/any0')), error(lambda: os.listdir('$ib/any0/fw_ver')),
       error(lambda: open('$ib/any0/fw_ver', 'w')), error(lambda: open('$ib/nix')),
       error(lambda: open('$ib/mlx5_0/ports/1/gid_attrs/ndevs/0').read())])"
fi
finish
