# SPDX-License-Identifier: MIT
# For shell scripts that start programs and wait for them: never by time, always for what they do.

# wait_for COMMAND...: until it succeeds; fails if it has not after a minute
wait_for() {
	local end=$((SECONDS + 60))
	until "$@"; do
		[ $SECONDS -lt $end ] || return
		sleep 0.1
	done
}

# next_port FIRST: sets $port to a TCP port that nobody uses, of the thousand from FIRST on, which
# are the script's own: no two of them meet. They are below those that the kernel hands out, and
# clients/pair.py has those from 20000 on.
next_port() {
	: "${port:=$(($1 + $$ % 900))}" # for two that run the same script
	while port=$((port + 1 < $1 + 1000 ? port + 1 : $1)) && port_is_in_state '..'; do :; done
}

# listens PORT
listens() {
	port=$1 port_is_in_state 0A
}

port_is_in_state() {
	local tables=(/proc/net/tcp /proc/net/tcp6)
	[ -e "${tables[1]}" ] || unset 'tables[1]'
	grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") [0-9A-F]+:[0-9A-F]+ $1 " \
		"${tables[@]}"
}
