# control.sh - the cluster's levers, for the keeper, the tests and a hand: source it on the login node.
#
#   node_boot|node_off NODE            its power: off ends every process there at once
#   slurmd_kill|slurmd_start NODE      the daemon alone; running steps go on
#   node_cut|node_mend NODE            its network cable
#   controller_kill|_start|_stall|_resume     munge_kill|_start|_stall|_resume
#   on NODE COMMAND...                 runs COMMAND there
cluster=/run/cluster

pid_of() { cat "$cluster/$1.pid"; }
wait_gone() { while [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do sleep 0.02; done; }

munge_start() {
    munged --key-file=$cluster/munge.key --socket=/run/munge/munge.socket.2 --force \
        --pid-file=$cluster/munged.pid --log-file=$cluster/log/munged \
        --seed-file=$cluster/munge.seed 8>&- </dev/null
}
munge_kill() { local pid; pid=$(pid_of munged) && kill -KILL "$pid" && wait_gone "$pid"; }
munge_stall() { kill -STOP "$(pid_of munged)"; }
munge_resume() { kill -CONT "$(pid_of munged)"; }

controller_start() { slurmctld 8>&- </dev/null; }
controller_kill() { local pid; pid=$(pid_of slurmctld) && kill -KILL "$pid" && wait_gone "$pid"; }
controller_stall() { kill -STOP "$(pid_of slurmctld)"; }
controller_resume() { kill -CONT "$(pid_of slurmctld)"; }

# A node: namespaces of its own, a cable to the bridge, its own /tmp and /dev/shm, and slurmd.
node_boot() { # node
    local node=$1 number=${1#n} init=$cluster/nodes/$1/init.pid tries
    rm -f "$init"
    setsid unshare --mount --net --pid --uts --fork --kill-child --propagation private \
        bash "${BASH_SOURCE[0]%/*}/node.sh" "$node" </dev/null >>$cluster/log/node-$node 2>&1 8>&- &
    local waiter=$!
    for ((tries = 0; tries < 9000; tries++)); do
        # The node's init is the only child of the unshare that we started.
        pgrep -P "$waiter" >"$init" && [ -e "$cluster/nodes/$node/ready" ] && break
        sleep 0.01
    done
    ip link add "v$number" type veth peer name eth0 netns "$(cat "$init")" &&
        ip link set "v$number" master br0 up &&
        nsenter -t "$(cat "$init")" --net sh -c "ip link set lo up && ip link set eth0 up &&
            ip addr add 10.73.0.$number/24 dev eth0" && slurmd_start "$node"
}
node_off() {
    kill -KILL "$(cat "$cluster/nodes/$1/init.pid")"
    wait_gone "$(cat "$cluster/nodes/$1/init.pid")"
    rm -f "$cluster/nodes/$1/ready"
}
node_cut() { ip link set "v${1#n}" down; }
node_mend() { ip link set "v${1#n}" up; }

on() { # node, command...
    local init
    init=$(cat "$cluster/nodes/$1/init.pid") || return 1
    shift
    nsenter -t "$init" --mount --net --pid --uts "$@"
}
slurmd_start() { on "$1" slurmd 8>&- </dev/null; }
# The daemon's pid as the login node sees it: slurmd's own file holds the node's numbering.
slurmd_pid() { pgrep -x slurmd --ns "$(cat "$cluster/nodes/$1/init.pid")" --nslist pid; }
slurmd_kill() { local pid; pid=$(slurmd_pid "$1") && kill -KILL $pid && for p in $pid; do wait_gone "$p"; done; }
