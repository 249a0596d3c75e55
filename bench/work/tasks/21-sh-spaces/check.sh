set -eu
mkdir "my notes"
echo one > "my notes/a b.txt"
echo two > "my notes/c.txt"
echo no > "my notes/d.md"
sh backup.sh "my notes"
[ "$(cat 'my notes/a b.txt.bak')" = one ]
[ "$(cat 'my notes/c.txt.bak')" = two ]
[ ! -e "my notes/d.md.bak" ]
[ "$(ls 'my notes' | wc -l)" -eq 5 ]
