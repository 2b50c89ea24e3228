# Completion of plumbline in fish.
function __plumbline_words
  set -l words (commandline -opc) (commandline -ct)
  command $words[1] completion words -- $words[2..-1] 2>/dev/null
end
complete -c plumbline -f -a '(__plumbline_words)'
