#!/bin/bash
# SPDX-License-Identifier: MIT
# First process of the emulated machine: lays the cables of /cables, runs the rows of /rows, and
# says so on the console. Whoever reads the console ends the machine.
#
# A cable is a pair of veth between two ends. An end is the name of its interface:
#   rxe0 any0   the kernel's device, and ours in a namespace
#   rxe1 rxe2   the kernel's devices, both in the first namespace, as Linux 6.1 wants them
#   any1 any2   ours, in two namespaces
# A row is three lines: NUMBER SERVER-END CLIENT-END IP-VERSION SECONDS tcp|cm|group ends|stays
# NETWORK, and the two commands. programs.py says what is put into them.
export PATH=/bin LC_ALL=C ANYVERBS_LIBRARY=/bin/libanyverbs.so.1
port=18515

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /run/netns
for folder in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $folder; done
while read -r module; do insmod "$module"; done </modules
ulimit -l unlimited

# What each end is.
device() { case $1 in rxe*) echo "$1" ;; *) echo any0 ;; esac; }
number() { case $1 in rxe0 | rxe1 | any1) echo 1 ;; *) echo 2 ;; esac; }
network() { case $1 in rxe0 | any0) echo 1 ;; rxe1 | rxe2) echo 2 ;; *) echo 3 ;; esac; }
address4() { echo "10.0.$(network "$1").$(number "$1")"; }
address6() { echo "fd0$(network "$1")::$(number "$1")"; }
address() { "address$2" "$1"; } # END IP-VERSION

# Words that go before a command: at END, in its namespace; with END, beside its device.
at() { case $1 in any*) echo "ip netns exec $1" ;; esac; }
with() { case $1 in any*) echo "$(at "$1") env ANYVERBS_DIR=/tmp/$1 anyverbs run --" ;; esac; }

# Larger than 4096 bytes and the headers. All addresses are there at once: the kernel's own
# link-local ones would change the devices' tables two seconds later.
lay_cable() {
	local end at
	ip link add "$1" mtu 4300 type veth peer name "$2" mtu 4300
	for end in "$1" "$2"; do
		at=$(at "$end")
		case $end in
		any*)
			ip netns add "$end"
			mkdir -p "/tmp/$end"
			ip link set "$end" netns "$end"
			$at ip link set lo up
			;;
		esac
		$at ip link set "$end" addrgenmode none
		$at ip addr add "$(address "$end" 4)/24" dev "$end"
		$at ip addr add "$(address "$end" 6)/64" dev "$end" nodad
		$at ip link set "$end" up
		case $end in rxe*) rdma link add "$end" type rxe netdev "$end" ;; esac
	done
	introduce "$1" "$2"
	introduce "$2" "$1"
}

# introduce END OTHER: when this returns, END sends, and knows OTHER's hardware. The kernel would
# ask for it, but waits no longer than a second when a queue pair is connected.
introduce() {
	local at hardware version
	at=$(at "$1")
	until [ "$($at cat "/sys/class/net/$1/operstate")" = up ]; do sleep 0.1; done
	hardware=$($(at "$2") cat "/sys/class/net/$2/address")
	for version in 4 6; do
		$at ip -$version neigh replace "$(address "$2" $version)" \
			lladdr "$hardware" dev "$1"
	done
}

# Packets between two addresses of one namespace take the cable: what arrives from it is for this
# host, and only then do the host's own addresses count.
through_the_cable() {
	local end to
	for version in 4 6; do
		ip -$version rule add pref 100 lookup local
		ip -$version rule add pref 1 iif "$1" lookup local
		ip -$version rule add pref 1 iif "$2" lookup local
		ip -$version rule del pref 0
	done
	for end in "$1" "$2"; do
		to=$2
		[ "$end" = "$1" ] || to=$1
		echo 1 >"/proc/sys/net/ipv4/conf/$end/accept_local"
		for version in 4 6; do
			ip -$version rule add pref 2 from "$(address "$end" $version)" \
				to "$(address "$to" $version)" lookup "10$(number "$end")"
			ip -$version route add "$(address "$to" $version)" dev "$end" \
				table "10$(number "$end")"
		done
	done
}

# learn_gids END: gid_END_4 and gid_END_6, the indices of its addresses in its device's table
learn_gids() {
	local version address index text
	text=$($(with "$1") ibv_devinfo -v -d "$(device "$1")")
	for version in 4 6; do
		address=$(address "$1" $version)
		[ $version = 6 ] || address=::ffff:$address
		index=$(sed -n "s/.*GID\[ *\([0-9]*\)\].*[[:space:]]$address,.*/\1/p" <<<"$text")
		declare -g "gid_$1_$version=$index"
	done
}

# listens END tcp|cm|group: at the port, for connections of librdmacm, or to 239.1.2.3
listens() {
	case "$2 $1" in
	tcp*)
		$(at "$1") cat /proc/net/tcp /proc/net/tcp6 |
			grep -q "$(printf ':%04X .* 0A' $port)"
		;;
	cm*rxe*) rdma resource show cm_id | grep -q "state LISTEN" ;;
	group*) $(at "$1") cat /proc/net/igmp | grep -q 030201EF ;;
	cm*any*) $(at "$1") cat /proc/net/udp /proc/net/udp6 | grep -q ":12B7 " ;; # 4791
	esac
}

# impair END END NETWORK: what the cable does to packets, in both directions
impair() {
	local end
	for end in "$1" "$2"; do
		$(at "$end") tc qdisc del dev "$end" root 2>/dev/null
		# shellcheck disable=SC2086 # words
		[ "$3" = clean ] || $(at "$end") tc qdisc add dev "$end" root netem limit 10000 $3
	done
}

# start END PEER IP-VERSION SECONDS COMMAND: the subshell becomes the command
start() {
	local end=$1 seconds=$4 gid=gid_$1_$3
	export GID=${!gid} DEV HERE THERE PEER
	DEV=$(device "$1")
	HERE=$(address "$1" "$3")
	THERE=$(address "$2" "$3")
	PEER=$(address "$2" 4)
	eval "set -- $5"
	# shellcheck disable=SC2046 # words
	exec timeout -s KILL "$seconds" $(with "$end") "$@" 2>&1 </dev/null
}

# run SERVER CLIENT IP-VERSION SECONDS tcp|cm|group ends|stays, and the commands: code_server and
# code_client. A server that stays is ended; one whose client was killed must notice.
run() {
	local pid waited=0
	code_client=0 code_server=0
	(start "$1" "$2" "$3" "$4" "$7") >/tmp/server &
	pid=$!
	until listens "$1" "$5" || ! kill -0 $pid 2>/dev/null || [ $waited -ge 300 ]; do
		waited=$((waited + 1))
		sleep 0.1
	done
	(start "$2" "$1" "$3" "$4" "$8") >/tmp/client || code_client=$?
	case "$6 $code_client" in
	"ends 0" | *" 137") ;;
	*) kill $pid 2>/dev/null ;;
	esac
	wait $pid || code_server=$?
}

# Was the client of perftest too fast? With -R, both agree to connect, and then the server begins
# to listen.
too_early() {
	[ $code_client != 0 ] && grep -q "RDMA_CM_EVENT_REJECTED; error: 8" /tmp/client
}

# row NUMBER SERVER CLIENT IP-VERSION SECONDS tcp|cm|group ends|stays NETWORK, and the commands
row() {
	local begin end again
	read -r begin _ </proc/uptime
	[ "$8" = clean ] || impair "$2" "$3" "$8"
	for again in 1 2 3; do
		run "$2" "$3" "$4" "$5" "$6" "$7" "$9" "${10}"
		too_early || break
		echo "@ $1 too early: $again"
	done
	echo "@ $1 client $code_client"
	echo "@ $1 server $code_server"
	[ "$8" = clean ] || impair "$2" "$3" clean
	sed -e "s/^/$1 server| /" -e "\$a\\" /tmp/server # whose last line may not end
	sed -e "s/^/$1 client| /" -e "\$a\\" /tmp/client
	read -r end _ </proc/uptime
	echo "@ $1 time $begin $end"
}

ip link set lo up
rdma system set netns exclusive
while read -r one other; do
	lay_cable "$one" "$other"
	case "$one $other" in rxe*" rxe"*) through_the_cable "$one" "$other" ;; esac
	learn_gids "$one"
	learn_gids "$other"
done </cables
read -r uptime _ </proc/uptime
echo "@ ready $uptime"
while read -r number server client version seconds ready end network; do
	read -r served
	read -r asked
	row "$number" "$server" "$client" "$version" "$seconds" "$ready" "$end" "$network" \
		"$served" "$asked"
done </rows
echo "@ done"
while :; do sleep 1000; done
