set -eu
mkdir logs
for number in 1 2 3 4; do
    echo "$number" > "logs/my log"
    sh rotate.sh "logs/my log" 3
done
[ -e "logs/my log" ] && [ ! -s "logs/my log" ]
[ "$(cat 'logs/my log.1')" = 4 ]
[ "$(cat 'logs/my log.2')" = 3 ]
[ "$(cat 'logs/my log.3')" = 2 ]
[ "$(ls logs | wc -l)" -eq 4 ]
code=0
sh rotate.sh logs/none 3 2> error.txt || code=$?
[ "$code" -eq 1 ]
[ -s error.txt ]
