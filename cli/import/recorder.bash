#!/usr/bin/env bash
# Stands in front of PATH for a program that a launch script starts: writes down how, and starts nothing of it.
set -f
: "${PLUMBLINE_FOLDER:=${0%/programs/*}}" "${PLUMBLINE_GPUS:=8}"
PATH=${PATH//"$PLUMBLINE_FOLDER/programs:"/}
work=$PLUMBLINE_FOLDER/work
name=${0##*/}
outer=()
if [ -n "$PLUMBLINE_OUTER" ]; then
  while IFS= read -r -d '' word; do outer+=("$word"); done <"$PLUMBLINE_OUTER"
fi

# Goes on as the program itself; without BASH_ENV, since it may be a script that starts its like.
really() {
  unset BASH_ENV
  exec "$name" "$@"
}
# A file of its own for each record, numbered in the order of the commands.
new_file() {
  local number=1
  until (set -C && : >"$PLUMBLINE_FOLDER/$1/$number") 2>/dev/null; do number=$((number + 1)); done
  file=$PLUMBLINE_FOLDER/$1/$number
}
# record KIND WORD...: the kind, the number of words, the words, and the variables that count processes.
record() {
  local kind=$1 variable
  shift
  new_file records
  {
    printf '%s\0' "$kind" $# "$@"
    for variable in WORLD_SIZE NNODES NPROC_PER_NODE ${!SLURM_@}; do
      [ -z "${!variable}" ] || printf '%s\0' "$variable=${!variable}"
    done
  } >"$file"
}
# Starts the words as the command of those before it.
start_within() {
  local count=$1
  shift
  new_file outer
  printf '%s\0' "${outer[@]}" "$name" "${@:1:count}" >"$file"
  shift "$count"
  export PLUMBLINE_OUTER=$file PATH=$PLUMBLINE_FOLDER/programs:$PATH
  case $1 in
    *.py) exec python "$@" ;;
    *.sh) exec bash "$@" ;;
  esac
  exec "$@"
}
# The command of a wrapper begins with the first word that can lead to a training.
wrap() {
  local at
  for ((at = 1; at <= $#; at++)); do
    case ${!at##*/} in
      *.py | *.sh | bash | sh | dash | zsh | env | python | python[23]* | torchrun | deepspeed | accelerate | megatron) ;;
      srun | mpirun | mpiexec | numactl | taskset | timeout | time | nice | stdbuf | nsys | ncu) ;;
      *) continue ;;
    esac
    start_within $((at - 1)) "$@"
  done
  record skipped "$name" "$@"
}
# Sets what Slurm sets for a job of these options.
set_slurm() {
  local key value
  while [ $# -gt 0 ]; do
    case $1 in
      --*=*) key=${1%%=*} value=${1#*=} ;;
      -[Nn][0-9]*) key=${1:0:2} value=${1:2} ;;
      *) key=$1 value=$2 ;;
    esac
    case $key in
      -N | --nodes) export SLURM_NNODES=${value##*-} SLURM_JOB_NUM_NODES=${value##*-} ;;
      -n | --ntasks) export SLURM_NTASKS=$value ;;
      --ntasks-per-node) export SLURM_NTASKS_PER_NODE=$value ;;
      --gpus-per-node | --gres) export SLURM_GPUS_PER_NODE=${value##*:} SLURM_GPUS_ON_NODE=${value##*:} ;;
    esac
    shift
  done
  : "${SLURM_NNODES:=1}"
  [ -n "$SLURM_NTASKS" ] || export SLURM_NTASKS=$((SLURM_NNODES * ${SLURM_NTASKS_PER_NODE:-1}))
  export SLURM_NNODES SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_JOB_NODELIST="node[1-$SLURM_NNODES]"
}
# Executes the script that sbatch is given, as a file, in --wrap or on its input.
submit() {
  unset SLURM_NTASKS SLURM_NTASKS_PER_NODE SLURM_NNODES SLURM_GPUS_PER_NODE SLURM_GPUS_ON_NODE
  local at options=() script= word
  for ((at = 1; at <= $#; at++)); do
    word=${!at}
    case $word in
      --wrap=*) script=$work/.wrap && printf '%s\n' "${word#*=}" >"$script" ;;
      --wrap) at=$((at + 1)) script=$work/.wrap && printf '%s\n' "${!at}" >"$script" ;;
      -*) options+=("$word") ;;
      *) if [ -f "$word" ]; then script=$word && break; else options+=("$word"); fi ;;
    esac
  done
  [ -n "$script" ] || { script=$work/.batch && cat >"$script"; }
  local header=()
  while read -r word; do header+=($word); done < <(sed -n '/^[^#]/q; s/[[:space:]]#.*//; s/^#SBATCH//p' "$script")
  set_slurm "${header[@]}" "${options[@]}"
  shift $((at < $# ? at : $#))
  options=("${header[@]}" "${options[@]}")
  start_within ${#options[@]} "${options[@]}" bash "$script" "$@"
}
# Changes files only where they are in the folder of this reading, file by file where that has a meaning.
change_files() {
  local word path kept=() inside=0 elsewhere=0 last=1
  for word; do
    path=$word
    case $word in
      --*=*) path=${word#*=} ;;
      -*/*) path=/${word#*/} ;;
      -*..) path=.. ;;
    esac
    case "$name $word" in  # words with a path in them, and those by which the last one is not where the others go
      dd\ *=*) path=${word#*=} ;;
      rsync\ *:*) path=/ last=0 ;;  # of another host
      cp\ -t* | cp\ -[!-]*t* | cp\ --t* | install\ -[dt]* | install\ -[!-]*[dt]* | install\ --[dt]*) last=0 ;;
    esac
    if [[ $word != -* || $path == */* || $path == .. ]]; then
      case $(realpath -m -- "$path" 2>/dev/null) in
        "$work" | "$work"/*) [[ $word == -* ]] || inside=$((inside + 1)) ;;
        *) elsewhere=1 && continue ;;
      esac
    fi
    kept+=("$word")
  done
  [ "$elsewhere" = 1 ] || really "$@"
  case $last$name in 1cp | 1install | 1rsync) [[ $(realpath -m -- "${@: -1}")/ != "$work"/* ]] || really "$@" ;; esac
  record skipped "$name" "$@"
  case $name in
    tee) really "${kept[@]}" ;;
    rm | rmdir | mkdir | touch) [ "$inside" = 0 ] || really "${kept[@]}" ;;
  esac
}

# Goes on as the program itself, which may start others: they are found here first, also with a PATH of its own.
start_others() {
  local word words=() program
  program=$(type -P "$name") || program=$name
  export PATH=$PLUMBLINE_FOLDER/programs:$PATH BASH_ENV=$PLUMBLINE_FOLDER/setup
  if [ "$name" = setsid ]; then  # all stay in the group of processes that is ended
    while [[ $1 == -* ]]; do shift; done
    exec "$@"
  fi
  for word; do
    [ "$name" = env ] && [[ $word == PATH=* ]] && word=PATH=$PLUMBLINE_FOLDER/programs:${word#PATH=}
    words+=("$word")
    [ "$name" = env ] && case $word in - | -i | --ignore-environment) words+=("PATH=$PATH" "BASH_ENV=$BASH_ENV" "PLUMBLINE_FOLDER=$PLUMBLINE_FOLDER") ;; esac
  done
  exec "$program" "${words[@]}"
}

case $name in
  torchrun | deepspeed | accelerate | megatron) record started "${outer[@]}" "$name" "$@" ;;
  python*)
    case "$1 $2" in
      *torch.cuda.device_count*) record answered "$name" && echo "$PLUMBLINE_GPUS" ;;
      -c\ * | -\ * | -V\ * | --version\ * | ' ') really "$@" ;;
      *) record started "${outer[@]}" "$name" "$@" ;;
    esac
    ;;
  sbatch) submit "$@" ;;
  env | nohup | timeout | nice | stdbuf | setsid | taskset) start_others "$@" ;;
  # Bash keeps the recorders in front of PATH, another shell does not.
  sh | dash | zsh) PATH=$PLUMBLINE_FOLDER/programs:$PATH exec bash "$@" ;;
  nvidia-smi)
    record answered "$name" "$@"
    for ((gpu = 0; gpu < PLUMBLINE_GPUS; gpu++)); do
      case "$*" in
        *query-gpu=count*) echo "$PLUMBLINE_GPUS" ;;
        *query-gpu=*) echo "$gpu" ;;
        *-L* | *--list-gpus*) echo "GPU $gpu: GPU (UUID: GPU-$gpu)" ;;
      esac
    done
    ;;
  scontrol)
    record answered "$name" "$@"
    for ((node = 1; node <= ${SLURM_NNODES:-1}; node++)); do echo "node$node"; done
    ;;
  hostname) case $1 in -I | -i) echo 127.0.0.1 ;; *) echo localhost ;; esac ;;
  rm | rmdir | mv | cp | ln | touch | mkdir | chmod | chown | truncate | dd | tee | shred | install | rsync)
    change_files "$@"
    ;;
  srun | salloc | mpirun | mpiexec | prun | jsrun | aprun | docker | podman | nerdctl | apptainer | singularity | enroot | nsys | ncu | numactl)
    wrap "$@"
    ;;
  ray)
    for ((at = 1; at < $#; at++)); do
      case "$1 $2 ${!at}" in "job submit --") start_within $at "$@" ;; esac
    done
    record skipped "$name" "$@"
    ;;
  uv) case $1 in run) wrap "$@" ;; *) record skipped "$name" "$@" ;; esac ;;
  *) record skipped "$name" "$@" ;;
esac
