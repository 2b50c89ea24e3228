#compdef plumbline
# Completion of plumbline in zsh.
_plumbline() {
  local -a found
  found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null | cut -f1)}")
  compadd -S '' -- "${(@M)found:#*[=/]}"
  compadd -- "${(@)found:#*[=/]}"
}
if [[ $funcstack[1] == _plumbline ]]; then
  _plumbline "$@"
else
  compdef _plumbline plumbline
fi
