# The far side of commands of a session, as one POSIX shell program: ROOT NAME VERB ARGUMENTS. The folder ROOT/NAME
# is one use of this machine: `work` is the copy of the workspace, `beat` is touched while the session lives, and
# `over` says for how many seconds it was used and why it ended; the first word about that stands. What it starts has
# NAME in its environment, by which all of it is found and ended.
set -u
umask 077
root=$1 name=$2 verb=$3
shift 3
case $root in /*) ;; *) root=$HOME/$root ;; esac
use=$root/$name

find_left() { # [LEADER]: into `left`, what carries our name, or is of the session that LEADER began
    left=
    for each in $(grep -lszxF -- "MAINSPRING_MACHINE=$name" /proc/[0-9]*/environ); do
        each=${each#/proc/}
        left="$left ${each%/environ}"
    done
    [ $# = 1 ] || return 0
    leader=$1
    for each in /proc/[0-9]*/stat; do
        IFS= read -r stat 2>/dev/null <"$each" || continue
        each=${each#/proc/}
        set -- ${stat##*) }
        [ "${4-}" = "$leader" ] && [ "$1" != Z ] && left="$left ${each%/stat}"
    done
    return 0
}

end_left() {
    tries=0
    find_left "$@"
    while [ -n "$left" ] && [ "$tries" -lt 30 ]; do
        case $tries in 0) signal=TERM ;; [1-9]) signal=0 ;; *) signal=KILL ;; esac
        kill -s "$signal" $left 2>/dev/null
        sleep 0.1
        find_left "$@"
        tries=$((tries + 1))
    done
}

close_use() { # WHY
    echo "$(($(date +%s) - $(cat "$use/began"))) $1" >"$use/over.$$"
    ln "$use/over.$$" "$use/over" 2>/dev/null
    rm -f "$use/over.$$"
}

watch() { # LIMIT: ends the command when its time, or the connection that asked for it, is over
    timeout "$1" cat <&3 >/dev/null 2>&1
    if [ $? = 124 ]; then why=timed_out; else why=lost; fi
    mkdir "$run/over" 2>/dev/null || return 0
    echo "$why" >"$run/end"
    end_left "$pid"
}

list() { # N LEAVE...: how the use is, how run N ended, and every file there; whoever asks follows that run no more
    cd "$use/work" || exit 1
    : >"$use/beat"
    if [ -d "$use/run-$1" ] && mkdir "$use/run-$1/over" 2>/dev/null; then
        echo lost >"$use/run-$1/end"
        end_left
    fi
    [ -d "$use/run-$1" ] && end=$(cat "$use/run-$1/end") || end=never
    printf '%s\0%s\0' "$(cat "$use/over" 2>/dev/null)" "$end"
    shift
    for each in "$@"; do
        shift
        set -- "$@" -name "$each" -prune -o
    done
    find . "$@" -type f -printf '%s %T@ %C@ %m %p\0' -o ! -type d -printf '- - - - %p\0'
}

case $verb in
check)
    for program in bash tar timeout setsid find xargs grep stat; do
        command -v "$program" >/dev/null 2>&1 || { echo "$program is not there" >&2; exit 1; }
    done
    find / -maxdepth 0 -printf '' 2>/dev/null || { echo "its find has no -printf" >&2; exit 1; }
    mkdir -p "$root" && uname -sn
    ;;
begin) # SILENCE LIMIT SELF
    mkdir -p "$root" && mkdir "$use" && mkdir "$use/work" || exit 1
    date +%s >"$use/began" && : >"$use/beat" && printf '%s\n' "$3" >"$use/self" || exit 1
    setsid -f sh "$use/self" "$root" "$name" keep "$1" "$2" </dev/null >/dev/null 2>&1
    ;;
keep) # SILENCE LIMIT: ends everything when nobody was heard of for so long, or when its time is over
    pause=$(($1 / 4))
    [ "$pause" -ge 1 ] || pause=1
    [ "$pause" -le 15 ] || pause=15
    while [ -d "$use" ] && [ ! -e "$use/over" ]; do
        now=$(date +%s)
        if [ $((now - $(stat -c %Y "$use/beat"))) -gt "$1" ]; then
            close_use silence
            end_left
        elif [ $((now - $(cat "$use/began"))) -ge "$2" ]; then
            close_use time
            end_left
        else
            sleep "$pause"
        fi
    done
    ;;
beat)
    [ ! -d "$use" ] || : >"$use/beat"
    ;;
put) # N LEAVE...: takes an archive (`gone` names what goes, `files` has what comes), then lists
    umask 022
    cd "$use" && cat >in.tar && tar -xf in.tar gone || exit 1
    (cd work && xargs -0 -r rm -f -- <../gone) || exit 1
    tar -xf in.tar -C work --strip-components=1 files && rm -f in.tar gone && list "$@"
    ;;
run) # N LIMIT COMMAND
    : >"$use/beat" && [ ! -e "$use/over" ] && mkdir "$use/run-$1" || exit 1
    run=$use/run-$1
    umask 022
    exec 3<&0
    cd "$use/work" || exit 1
    MAINSPRING_MACHINE=$name setsid bash -c "$3" </dev/null 3<&- &
    pid=$!
    exec 2>/dev/null
    watch "$2" </dev/null >/dev/null &
    wait "$pid"
    code=$?
    if mkdir "$run/over" 2>/dev/null; then echo "$code" >"$run/end"; fi
    end_left "$pid"
    exit "$code"
    ;;
list)
    list "$@"
    ;;
fetch) # takes names
    cd "$use/work" && tar --null --verbatim-files-from --no-recursion --ignore-failed-read -cf - -T -
    ;;
end) # what is left says that there was such a use, and how it ended
    [ -d "$use" ] || exit 0
    close_use asked
    end_left
    cat "$use/over" && rm -rf "$use/work" "$use"/run-* "$use"/in.tar "$use/self"
    ;;
esac
