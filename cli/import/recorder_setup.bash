case $0 in "$PLUMBLINE_FOLDER"/programs/*) return ;; esac
# Whatever the script puts in front of PATH, the recorders stay in front; a PATH for one command is none for a function.
for name in "$PLUMBLINE_FOLDER"/programs/*; do
  eval "${name##*/}() { \"$name\" \"\$@\"; }"
done
unset name
set -T
trap '[[ $- != *m* ]] || set +m  # jobs stay in the group of processes that is ended
[[ $PATH == "$PLUMBLINE_FOLDER/programs:"* ]] || PATH=$PLUMBLINE_FOLDER/programs:$PATH
if [[ $BASH_COMMAND =~ (^|\ )PATH=[^\ ]*\ (.*\ )?(exec|command)\  ]]; then
  echo "a PATH for one command before exec or command would lead past the recorders: $BASH_COMMAND" >&2
  exit 1
fi' DEBUG
# Folders of the cluster are missing here: the script goes on where it is.
cd() { builtin cd "$@" 2>/dev/null || "$PLUMBLINE_FOLDER/programs/cd" "$@"; }
