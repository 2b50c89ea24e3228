// Reads one reading of a script into a plan and a model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/arguments.h"
#include "model/megatron/detail/launch.h"
#include "model/megatron/given.h"
#include "model/megatron/import.h"

namespace plumbline::model::megatron {

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
