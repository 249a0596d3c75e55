"""Programs with the names and the options of Slurm's, for a machine without it: a job is a process in a session of
its own, and a folder has what is known of it."""

from pathlib import Path

_COMMON = """#!/bin/sh
db={folder}
"""
_PROGRAMS = {
    "sbatch": """
[ ! -e "$db/down" ] || { echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1; }
echo "$*" >>"$db/submissions"
name= output=
while :; do
    case $1 in
    --job-name=*) name=${1#*=} ;;
    --chdir=*) cd "${1#*=}" || exit 1 ;;
    --output=*) output=${1#*=} ;;
    --*) ;;
    *) break ;;
    esac
    shift
done
until id=$((${id:-99} + 1)) && mkdir "$db/$id" 2>/dev/null; do :; done
echo "$name" >"$db/$id/name"
echo RUNNING >"$db/$id/state"
script=$1
shift
SLURM_JOB_ID=$id db=$db output=$output setsid -f sh -c '
echo $$ >"$db/$SLURM_JOB_ID/pid"
sh "$@" >"$output" 2>&1 </dev/null
code=$?
[ "$code" = 0 ] && state=COMPLETED || state=FAILED
echo "$code" >"$db/$SLURM_JOB_ID/code"
echo "$state" >"$db/$SLURM_JOB_ID/state"
' sh "$script" "$@" >/dev/null 2>&1
while [ ! -e "$db/$id/pid" ]; do sleep 0.02; done
echo "$id"
""",
    "squeue": """
by=$2 wanted=$3 what=$5 which=$7
[ ! -e "$db/down" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
if [ "$by" = -j ] && [ ! -e "$db/$wanted/state" ]; then
    echo "slurm_load_jobs error: Invalid job id specified" >&2
    exit 1
fi
for job in "$db"/[0-9]*; do
    [ -e "$job/state" ] || continue
    read -r state <"$job/state"
    [ "$state" = RUNNING ] || [ "$which" = all ] || continue
    case $by in -j) found=${job##*/} ;; *) read -r found <"$job/name" ;; esac
    [ "$found" = "$wanted" ] || continue
    case $what in %T) echo "${state%% *}" ;; *) echo "${job##*/}" ;; esac
done
""",
    "sacct": """
by=$4 wanted=$5
for job in "$db"/[0-9]*; do
    [ -e "$job/state" ] || continue
    case $by in -j) found=${job##*/} ;; *) read -r found <"$job/name" ;; esac
    [ "$found" = "$wanted" ] || continue
    code=$(cat "$job/code" 2>/dev/null || echo 0)
    case $by in -j) echo "$(cat "$job/state")|$code:0|1" ;; *) echo "${job##*/}" ;; esac
done
""",
    "scancel": """
job=$db/$1
read -r state <"$job/state"
[ "$state" = RUNNING ] || exit 0
echo "CANCELLED by 0" >"$job/state"
read -r leader <"$job/pid"
for each in /proc/[0-9]*/stat; do
    IFS= read -r stat 2>/dev/null <"$each" || continue
    each=${each#/proc/}
    set -- ${stat##*) }
    [ "$4" = "$leader" ] && kill -s KILL "${each%/stat}" 2>/dev/null
done
exit 0
""",
}


def install(folder: Path) -> Path:
    """Writes the programs; the folder for PATH. `submissions` beside it has a line for each `sbatch`."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, text in _PROGRAMS.items():
        program = programs / name
        program.write_text(_COMMON.format(folder=folder) + text)
        program.chmod(0o755)
    return programs
