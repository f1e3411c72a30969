# node.sh NODE - the init of a node of the private cluster (see cluster, control.sh).
set -u
shares=/run/cluster/shares
hostname "$1"
mount -t proc proc /proc
cat /proc/sys/kernel/random/uuid >"/run/cluster/nodes/$1/boot_id" # as a machine of its own has it
mount --bind "/run/cluster/nodes/$1/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o size=256m tmpfs /dev/shm
# A /tmp of its own, in which what must be shared (a build under /tmp) is still seen.
mkdir -p "/run/cluster/nodes/$1/host-tmp"
mount --rbind /tmp "/run/cluster/nodes/$1/host-tmp"
mount -t tmpfs -o mode=1777,size=256m tmpfs /tmp
while read -r path; do
    mkdir -p "$path"
    mount --rbind "/run/cluster/nodes/$1/host-tmp/${path#/tmp/}" "$path"
done <"$shares"
umount -l "/run/cluster/nodes/$1/host-tmp"
: >"/run/cluster/nodes/$1/ready"
trap '' HUP INT TERM
while :; do sleep 3600 & wait $!; done
