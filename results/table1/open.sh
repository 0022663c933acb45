#!/usr/bin/env bash
# Trainings that table 1 still lacks, side by side on one GPU:
#
#     results/table1/open.sh FOLDER MINUTES PART...     # PART: clean-rows views fmnist rivals
#
# Needs the part's data in ONEOF_DATA, with results/candidates/*_r* in candidates/. The same call continues what was
# stopped or has failed. What is still running after MINUTES ends at its next checkpoint, which may take three more.
# Records get into the table by the commands of README.md with --minutes 0 --reuse FOLDER/PART (not those of rivals:
# other settings are other rows).
#
# On an H200 one after the other, in minutes (estimates from the passes of a step): clean-rows 3, views 5, fmnist 4,
# rivals 9. Eight side by side do 1.5 times the work of one, each at a fifth of its speed: start first what must be done.
set -u
cd "$(dirname "$0")/../.."
folder=$1 minutes=$2
shift 2
mkdir -p "$folder"
export PYTHONPATH=src OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=4

for part in "$@"; do
    case $part in
    clean-rows | views | fmnist | rivals) ;;
    *) echo "there is no part $part; see the first lines of $0" >&2 && exit 2 ;;
    esac
done

if command -v nvidia-cuda-mps-control >/dev/null && [ ! -e /tmp/nvidia-mps/control ]; then
    nvidia-cuda-mps-control -d # one service for all parts
    trap 'echo quit | nvidia-cuda-mps-control' EXIT
fi

lab() { # PART WORKERS PROTOCOL DATA METHODS
    local part=$1 workers=$2 protocol=$3 data=$4
    shift 4
    "${PYTHON:-python3}" -W ignore -m oneof.lab "$protocol" --data "$data" --splits 1 --workers "$workers" \
        --device "${DEVICE:-cuda}" --speed "${SPEED:-compiled}" --minutes "$minutes" --retry-failed --to "$folder/$part" \
        --methods "$@" >>"$folder/$part.log" 2>&1 &
}

for part in "$@"; do
    case $part in
    fmnist) lab fmnist 3 images fmnist sdct idgp able ;;
    views) lab views 2 images-views cifar10 "rplg, three views" "rplg+, three views" ;;
    rivals) # why are they below the paper? ABLE as PRODEN on the weak view, IDGP with its authors' settings, and PLCR
        # with its consistency term from the start
        lab plcr 1 images cifar10 plcr --set plcr.ramp=0
        lab able 1 images cifar10 able --set able.weight=0.0
        lab idgp 1 images cifar10 idgp --set idgp.alpha=10.0 idgp.theta=0.001 idgp.gamma=0.01 idgp.f_temperature=1.95 \
            idgp.g_temperature=5.9 idgp.g_lr=0.2 idgp.g_decay=1e-5 idgp.warm_up=3 weight_decay=1e-4
        ;;
    clean-rows) lab clean-rows 1 images-clean-rows cifar10 "difference, 64 rows" ;;
    esac
done
wait
tail -n 3 "$folder"/*.log
