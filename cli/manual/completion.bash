# Completion of plumbline in bash.
_plumbline() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[-1]}
  local cut=""
  [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && cut=${word%"${word##*=}"}
  local IFS=$'\n'
  COMPREPLY=($("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null | cut -f1))
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _plumbline plumbline
