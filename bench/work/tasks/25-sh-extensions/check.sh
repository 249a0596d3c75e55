set -eu
mkdir -p "data x/deep"
touch "data x/a.b.gz" "data x/deep/c.gz" "data x/e f.csv" "data x/deep/none" "data x/z.a"
[ "$(sh extensions.sh 'data x')" = "a 1
csv 1
gz 2" ]
