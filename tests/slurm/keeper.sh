# keeper.sh - the init of a private Slurm (see cluster). Arguments: NAME N_NODES FOLDER [Key=Value...]
#
# stdin: "stay", or its end: then we end, and with us all. fd 8: "up", or what went wrong.
# Runs in new PID, network, mount and host-name namespaces. Everything it mounts and starts ends
# with it. Layout: /run/cluster/{etc,log,state,jobcomp,nodes/nK/{pid,spool}}, /run/shared.
set -u
name=$1
n_nodes=$2
folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
state=/run/cluster

fatal() {
    {
        echo "$*"
        tail -n 20 $state/log/* 2>/dev/null
    } >&8
    exit 1
}
trap '' HUP INT TERM

make_ground() {
    local source
    source=$(cd "$here/../.." && pwd)
    mount -t proc proc /proc &&
        mount -t tmpfs -o mode=755 hrf-run /run &&
        mkdir -p $state/etc $state/log $state/state $state/nodes $state/gpu /run/shared /run/munge &&
        chmod 1777 /run/shared &&
        mknod $state/gpu/nvidia0 c 1 3 && mknod $state/gpu/nvidia1 c 1 3 &&
        hostname login &&
        { mkdir -p /etc/slurm; mount --bind $state/etc /etc/slurm; } || return 1
    {
        echo "127.0.0.1 localhost"
        echo "10.73.0.254 login"
        for ((i = 1; i <= n_nodes; i++)); do echo "10.73.0.$i n$i"; done
    } >$state/hosts
    mount --bind $state/hosts /etc/hosts || return 1
    ip link set lo up && ip link add br0 type bridge && ip addr add 10.73.0.254/24 dev br0 &&
        ip link set br0 up
    # What must be seen on the nodes although it stands under /tmp, which is a node's own.
    printf '%s\n' "$source" "$folder" "${HRF_BIN_DIR:-$source}" "$(dirname "$(dirname "$(command -v slurmd)")")" | grep '^/tmp/.' | sort -u >$state/shares
    return 0
}

write_conf() { # Key=Value...
    cat >$state/etc/slurm.conf <<END
ClusterName=$name
SlurmctldHost=login(10.73.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$state/state
SlurmctldPidFile=$state/slurmctld.pid
SlurmctldLogFile=$state/log/slurmctld
SlurmdPidFile=$state/nodes/%n/slurmd.pid
SlurmdSpoolDir=$state/nodes/%n/spool
SlurmdLogFile=$state/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$state/jobcomp
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_min_age_reserve=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
SlurmctldTimeout=10
KillWait=5
UnkillableStepTimeout=10
MinJobAge=300
MaxArraySize=1001
MaxJobCount=10000
MessageTimeout=10
GresTypes=gpu
NodeName=n[1-$n_nodes] NodeAddr=10.73.0.[1-$n_nodes] CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=main Default=YES Nodes=ALL MaxTime=60 DefMemPerCPU=500
PartitionName=low Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=2
PartitionName=lowcancel Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=CANCEL GraceTime=2
PartitionName=high Nodes=ALL MaxTime=60 PriorityTier=100 PreemptMode=OFF
PartitionName=down Nodes=ALL State=DOWN
END
    local setting
    for setting; do
        sed -i "/^${setting%%=*}=/d" $state/etc/slurm.conf
        sed -i "1i $setting" $state/etc/slurm.conf
    done
    echo "Name=gpu File=$state/gpu/nvidia[0-1]" >$state/etc/gres.conf
    case $(slurmctld -V) in
    *" 20."*) ;; # knows no such key
    *) echo "CgroupPlugin=cgroup/v1" >$state/etc/cgroup.conf ;;
    esac
}

# A private key, and munge's files where its clients look for them: /run/munge.
start_munge() {
    dd if=/dev/urandom of=$state/munge.key bs=128 count=1 status=none
    chmod 400 $state/munge.key
    . "$here/control.sh"
    munge_start
}

make_nodes() {
    local i
    for ((i = 1; i <= n_nodes; i++)); do
        mkdir -p $state/nodes/n$i/spool
        . "$here/control.sh"
        node_boot n$i || return 1
    done
}

wait_for_nodes() {
    local tries
    for ((tries = 0; tries < 1500; tries++)); do
        [ "$(sinfo -h -p main -t idle -o %D 2>/dev/null)" = "$n_nodes" ] && return 0
        sleep 0.1
    done
    return 1
}

make_ground || fatal "could not make the cluster's file systems and network"
write_conf "$@"
. "$here/control.sh"
start_munge || fatal "munged did not start"
controller_start || fatal "slurmctld did not start"
make_nodes || fatal "a node did not start"
wait_for_nodes || fatal "the nodes did not become idle: $(sinfo -N -h -o '%N %T %E' 2>&1)"
echo up >&8
exec 8>&-
read -r word && [ "$word" = stay ] || exit 0
# As init: reap what comes, until we are killed.
while :; do sleep 3600 & wait $!; done
