# The far side of jobs, as one POSIX shell program: ROOT NAME VERB ARGUMENTS. A job has the folder ROOT/NAME:
# `work` is where it runs, `log` what it writes, `exit` its end, which whoever is first writes. It runs once:
# whoever makes the folder `claim` begins it, and nobody else does.
set -u
umask 077
root=$1 name=$2 verb=$3
shift 3
case $root in /*) ;; *) root=$HOME/$root ;; esac
job=$root/$name

born() { # when a process began, so that a later one of the same number is told apart
    IFS= read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    set -- ${stat##*) }
    case $1 in Z | X) return 1 ;; esac
    read -r boot </proc/sys/kernel/random/boot_id
    echo "${20} $boot"
}

lives() { # the job's own shell
    read -r pid rest 2>/dev/null <"$job/pid" || return 1
    [ "$(born "$pid")" = "$rest" ]
}

ended() { # STATE CODE; the first word about the end stands
    now=$(date +%s) began=$(cat "$job/began" 2>/dev/null || echo "$now")
    echo "$1 $2 $((now - began))" >"$job/exit.$$"
    ln "$job/exit.$$" "$job/exit" 2>/dev/null
    rm -f "$job/exit.$$"
}

find_members() { # into `left`: the processes of the session that the job's shell leads, but for that shell
    left=
    for each in /proc/[0-9]*/stat; do
        IFS= read -r stat 2>/dev/null <"$each" || continue
        each=${each#/proc/} each=${each%/stat}
        set -- ${stat##*) }
        [ "${4-}" = "$pid" ] && [ "$1" != Z ] && [ "$each" != "$pid" ] && left="$left $each"
    done
}

end_members() {
    tries=0
    find_members
    while [ -n "$left" ] && [ "$tries" -lt 20 ]; do
        case $tries in 0) signal=TERM ;; [1-9]) signal=0 ;; *) signal=KILL ;; esac
        kill -s "$signal" $left 2>/dev/null
        sleep 0.1
        find_members
        tries=$((tries + 1))
    done
}

slurm_id() {
    cat "$job/slurm" 2>/dev/null && return
    id=$(squeue -h -n "$name" -o %A 2>/dev/null | head -n 1)
    [ -n "$id" ] || id=$(sacct -X -n -P --name "$name" -o JobID 2>/dev/null | head -n 1)
    [ -n "$id" ] && echo "$id"
}

case $verb in
check)
    for program in tar timeout setsid "$@"; do
        command -v "$program" >/dev/null 2>&1 || { echo "$program is not there" >&2; exit 1; }
    done
    mkdir -p "$root" && echo "$(uname -sn)"
    ;;
prepare) # [files]: takes an archive of them, unless they were sent before
    if [ -d "$job/claim" ] || [ -e "$job/submitting" ]; then cat >/dev/null; exit; fi
    mkdir -p "$job/work" || exit 1
    [ $# = 0 ] || tar -xf - -C "$job/work"
    ;;
ssh) # LIMIT BEGIN COMMAND SELF
    if [ ! -d "$job/claim" ]; then
        printf '%s\n' "$3" >"$job/command" && printf '%s\n' "$4" >"$job/run" || exit 1
        setsid -f sh "$job/run" "$root" "$name" run "$1" "$2" </dev/null >/dev/null 2>&1 || exit 1
        tries=0
        until [ -e "$job/pid" ] || [ "$tries" -ge 200 ]; do sleep 0.05; tries=$((tries + 1)); done
        echo "$name new"
    else
        echo "$name known"
    fi
    ;;
slurm) # LIMIT BEGIN COMMAND SELF OPTIONS...
    limit=$1 begin=$2 known=$(slurm_id)
    if [ -n "$known" ]; then echo "$known" >"$job/slurm"; echo "$known known"; exit; fi
    printf '%s\n' "$3" >"$job/command" && printf '%s\n' "#!/bin/sh" "$4" >"$job/run" || exit 1
    shift 4
    : >"$job/submitting"
    [ "$begin" = 0 ] || set -- --begin="$(date -d "@$begin" +%Y-%m-%dT%H:%M:%S)" "$@"
    id=$(sbatch --parsable --job-name="$name" --comment="$name" --chdir="$job/work" --output="$job/slurm.log" \
        --time="$((limit / 60 + 2))" "$@" "$job/run" "$root" "$name" run "$limit" 0) || exit 1
    id=${id%%;*}
    echo "$id" >"$job/slurm"
    echo "$id new"
    ;;
run) # LIMIT BEGIN
    by=${SLURM_JOB_ID:-ssh}
    mkdir "$job/claim" 2>/dev/null || [ "$(cat "$job/claim/by" 2>/dev/null)" = "slurm $by" ] || exit 0
    [ "$by" = ssh ] || echo "slurm $by" >"$job/claim/by"
    pid=$$
    echo "$pid $(born "$pid")" >"$job/pid.new" && mv "$job/pid.new" "$job/pid"
    while [ "$2" -gt "$(date +%s)" ]; do sleep "$(($2 - $(date +%s)))"; done
    date +%s >"$job/began"
    cd "$job/work" || exit 1
    shell=$(command -v bash || command -v sh)
    timeout -k 10 "$1" "$shell" "$job/command" >>"$job/log" 2>&1 </dev/null
    code=$?
    state=done
    [ "$code" = 0 ] || state=failed
    case $code in 124 | 137) [ "$(($(date +%s) - $(cat "$job/began")))" -lt "$1" ] || state=timed_out ;; esac
    [ "$by" != ssh ] || end_members
    ended "$state" "$code"
    exit "$code"
    ;;
find) # KIND
    if [ "$1" = slurm ]; then slurm_id || true; elif [ -d "$job/claim" ]; then echo "$name"; fi
    ;;
status) # KIND ID
    if [ -e "$job/exit" ]; then cat "$job/exit"; exit; fi
    began=$(cat "$job/began" 2>/dev/null) && ran=$(($(date +%s) - began)) || ran=-
    if [ "$1" = ssh ]; then
        if lives; then
            [ "$ran" = - ] && echo "queued - -" || echo "running - $ran"
        elif [ -e "$job/exit" ]; then
            cat "$job/exit"
        elif [ -e "$job/pid" ]; then
            echo "lost - - its shell is gone, and left no exit code"
        else
            echo "unknown - - it is not there"
        fi
        exit
    fi
    queued=$(squeue -h -j "$2" -o %T 2>/dev/null | head -n 1)
    if [ -n "$queued" ]; then echo "slurm:$queued - $ran"; exit; fi
    if [ -e "$job/exit" ]; then cat "$job/exit"; exit; fi
    kept=$(sacct -X -n -P -j "$2" -o State,ExitCode,ElapsedRaw 2>/dev/null | head -n 1)
    if [ -n "$kept" ]; then
        IFS='|' read -r state code elapsed <<end
$kept
end
        echo "slurm:${state%% *} ${code%%:*} $elapsed"
        exit
    fi
    said=$(squeue -h -j "$2" -o %T -t all 2>&1 | tail -n 1)
    case $said in
    *"Invalid job id"*) echo "lost - - Slurm has forgotten it, and it left no exit code" ;;
    *[!A-Z_]* | '') echo "unknown - - neither squeue nor sacct knows it" ;;
    *) echo "slurm:$said - $ran" ;;
    esac
    ;;
logs) # BYTES
    tail -c "$1" "$job/log" 2>/dev/null || tail -c "$1" "$job/slurm.log" 2>/dev/null || true
    ;;
cancel) # KIND ID
    [ -e "$job/exit" ] && exit
    if [ "$1" = slurm ]; then scancel "$2" || exit 1; ended cancelled -; exit; fi
    if lives; then
        kill -s STOP "$pid"
        ended cancelled -
        end_members
        kill -s KILL "$pid"
    elif [ -d "$job" ]; then
        ended cancelled -
    fi
    ;;
missing) # OUTPUTS...
    cd "$job/work" || exit 1
    for each in "$@"; do [ -e "./$each" ] || printf '%s\n' "$each"; done
    ;;
fetch) # OUTPUTS...
    cd "$job/work" || exit 1
    for each in "$@"; do
        shift
        [ ! -e "./$each" ] || set -- "$@" "./$each"
    done
    [ $# = 0 ] || tar -cf - -- "$@"
    ;;
esac
