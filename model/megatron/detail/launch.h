// Finds the command of a script that starts the training, and the number of GPUs it starts on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/given.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

struct Launch {
  Command arguments;  // after the program
  std::string text;   // the launcher and the program
  std::optional<std::int64_t> gpus;
  Word open;  // without them: the launcher's number that is not known, "--nproc_per_node $GPUS"; may be empty
  std::string open_name;  // of the variable that has it; may be empty
  bool swift = false;     // ms-swift starts it
};

// Returns the given definitions, and under Slurm's run-time names (SLURM_NNODES ...) the values in the header of a
// batch script (#SBATCH) that are not among them.
Definitions slurm_definitions(std::string_view script, const Definitions& given);

// Returns the words with a blank between them.
std::string text_of(const Command& command);

// Whether the command trains: it runs a program with an argument of Megatron-LM that decides cost.
bool is_training(const Command& command);

// Returns the first command that runs a .py file, a module of Python or a verb of ms-swift's `megatron` with one of
// Megatron's arguments, or nothing; further ones are noted. The number of GPUs is that of the launcher before the
// program (torchrun, srun, mpirun), Slurm's header, WORLD_SIZE or ms-swift's NPROC_PER_NODE and NNODES.
// ms-swift's own defaults stand before its arguments, and are noted.
std::optional<Launch> find_launch(const Script& script, std::vector<Note>& notes);

// Returns the arguments by the names that the table has for them, also where they are written with _ for - or by an
// older name, and adds a note for each word that belongs to none. "true" after a name is a flag, "false" is none.
Given group_arguments(const Command& words, std::vector<Note>& notes);

}  // namespace plumbline::model::megatron
