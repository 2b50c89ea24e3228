// The command of a script that starts the training, and how many GPUs it starts on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/megatron/given.h"
#include "model/megatron/shell.h"

namespace plumbline::model::megatron {

struct Launch {
  Command arguments;  // behind the program
  std::optional<std::int64_t> gpus;
};

// What the header of a batch script (#SBATCH) promises, under the names Slurm gives at run time (SLURM_NNODES ...).
Definitions slurm_definitions(std::string_view script);

// The first command that runs a .py file with one of Megatron's arguments; further ones are noted. Nothing when there
// is none. GPUs come from the launcher before the program (torchrun, srun, mpirun), else from Slurm's header, else from
// WORLD_SIZE.
std::optional<Launch> find_launch(const Script& script, std::vector<Note>& notes);

// The arguments by name, and a note for each word that belongs to none.
Given group_arguments(const Command& words, std::vector<Note>& notes);

}  // namespace plumbline::model::megatron
