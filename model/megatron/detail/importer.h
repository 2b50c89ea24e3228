// Reads one reading of a script into a plan and a model.
//
// Finds the command of a script that starts the training, and the number of GPUs it starts on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/arguments.h"
#include "model/megatron/import.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

struct Launch {
  Command arguments;  // after the program
  std::string text;   // the launcher and the program
  std::optional<std::int64_t> gpus;
  Word open;  // without them: the launcher's number that is not known, "--nproc_per_node $GPUS"; may be empty
  std::string open_name;  // of the variable that has it; may be empty
  bool swift = false;     // ms-swift starts it
  bool actors = false;    // slime, which starts its processes itself
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

// How else a key may be that the script leaves open: by an argument that it does not give, or by a key that has what
// an argument asks for without being the same.
struct OpenChoice {
  int line = 0;  // of the argument; 0: it is not given
  std::string text;
  std::string arguments;  // to add to those of the script; empty: override_
  std::string override_;  // KEY=VALUE of the plan
};

// A script, and its comment lines, without the #.
struct Reading {
  Script script;
  std::vector<Word> comments;
};

class Importer {
 public:
  // `without`: an argument of the script that is left out.
  Importer(const std::string& path, const ImportOptions& options, std::string_view without = {})
      : path_(path), options_(options), without_(without) {}

  Result<ImportedScript> run(const Reading& reading);

  // Of the last run.
  const Given& given() const { return given_; }
  const std::vector<OpenChoice>& open_choices() const { return open_; }

 private:
  // What the script gives (importer.cc)
  Error problem(std::string_view argument, std::string message, std::string hint) const;
  Error placed(Error error, int line) const;
  std::optional<Error> read_launch();
  Error no_launch(const Script& script) const;
  std::optional<Error> read_rows();
  Error not_a_number(std::string_view name, const std::string& value) const;
  std::optional<Error> refusal() const;
  Error not_known(std::string_view argument, const Word& word) const;
  bool set(std::string_view key, std::string_view value);
  void note_reading();
  void note_unread(const std::string& name, const GivenArgument& argument, const Argument* known);
  void note_silence();

  // What follows from it (settle.cc)
  void read_older_names();
  void read_names_of_forks();
  std::optional<Error> require(std::string_view argument, std::int64_t value) const;
  bool generates() const;
  bool prices_rollout() const;
  std::optional<std::int64_t> overridden(std::string_view key) const;
  std::optional<Error> begin_rollout();
  std::optional<Error> settle_layers();
  std::optional<Error> settle_model();
  std::optional<Error> pad_vocabulary();
  void note_differences();
  std::optional<Error> settle_plan();
  Error no_gpus() const;
  std::string remedy_of_empty() const;
  void unset(const std::string& comment);
  Error at_script(Error error) const;

  std::string path_;
  const ImportOptions& options_;
  std::string without_;
  std::vector<std::string> files_;
  const Reading* reading_ = nullptr;
  Launch launch_;
  Given given_;
  std::vector<OpenChoice> open_;
  std::map<std::string, int, std::less<>> lines_;  // the line of each key's argument
  ImportedScript out_;
};

}  // namespace plumbline::model::megatron
