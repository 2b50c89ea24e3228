// Destinations of results and errors of a verb.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "reports/html/page.h"

namespace plumbline::cli {

// Returns the word in quotes where a shell would take it for something else.
std::string shell_word(std::string_view word);

// Returns the error of a file that cannot be written, with what to do about it. `code`: an errno.
model::Failure unwritable(const std::string& path, int code);

// Writes to a file, or to stdout for "-". A file is written under a temporary name in its folder and then renamed, so
// that an interrupted run leaves no partial file. A file that is replaced keeps its mode and its further names. Fails
// (input) when the folder is missing or not writable.
model::Result<void> write_output(const std::string& path_or_dash, const std::string& content);

// Does the same with a content that is never whole in memory: `writer` gives its pieces, in order, to its argument,
// until that returns false.
using PieceSink = std::function<bool(std::string_view piece)>;
using PieceWriter = std::function<bool(const PieceSink&)>;
model::Result<void> write_output(const std::string& path_or_dash, const PieceWriter& writer);

// Writes a file of a folder that was named for output, and makes the folders of its name. Fails (input) also where a
// link in the folder leads out of it: who can write there must not choose what is overwritten.
model::Result<void> write_output_in(const std::string& folder, const std::string& name, const std::string& content);

// Writes a file that must not exist, under a temporary name that becomes its own only if nothing has it.
model::Result<void> write_new_file(const std::string& path, const std::string& content);

// Returns the time as "2026-11-23T10:30:00Z".
std::string now_in_utc();

// Refuses outputs of the verb that was parsed which are one of its inputs, a file that an input names, or the same file
// as another output, and several on stdout, which is what - is of any option. Outputs are what --json, --csv, --svg,
// --html, --trace, -o, --residuals and --expert-loads take; inputs are files among all other values, and shipped plans.
model::Result<void> check_outputs(const CLI::App& root);

// Writes to stdout; returns exit code 0.
model::Result<int> printed(const std::string& text);

// Returns 1 for wrong input, 2 for infeasible, what shells report of the signal for interrupted.
int code_of(const model::Error& error);

// Prints the error to stderr and returns its exit code.
int report(const model::Error& error);

// Returns the exit code of a verb, or of its error after printing it.
int exit_of(const model::Result<int>& done);
int exit_of(const model::Result<void>& done);

// Options that take a file, or - for stdout. CLI11 keeps references into the object, so that it must not move.
class Outputs {
 public:
  struct Form {
    std::string option;
    std::function<model::Result<std::string>()> content;  // called only when the option is given
    PieceWriter pieces = {};                              // instead of content
  };

  Outputs() = default;
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  void add(CLI::App& verb, const std::string& option, const std::string& help);
  void add_page(CLI::App& verb);  // --html
  bool given(const std::string& option) const { return paths_.contains(option) && !paths_.at(option).empty(); }
  bool compressed(const std::string& option) const { return paths_.at(option).ends_with(".gz"); }
  bool to_stdout() const;             // whether stdout is used by an output, so that no text may be printed
  void discard() { paths_.clear(); }  // so that nothing is written
  // Writes a text to stdout unless to_stdout(); what goes to stderr later follows it. Errors: those of write_output().
  model::Result<void> print(const std::string& text) const;
  // Returns an input error where an output is given that is none of these, which are all that `subject` has.
  model::Result<void> check_among(const std::vector<std::string>& options, std::string_view subject) const;
  // Writes the given forms. Where --json is one of them, --html writes the page of that JSON and of `page_data`, an
  // object of what only pages carry.
  model::Result<void> write(std::initializer_list<Form> forms,
                            const std::function<std::string()>& page_data = {}) const;

 private:
  std::map<std::string, std::string> paths_;  // by option
  const CLI::App* verb_ = nullptr;            // that has --html
};

// Returns the verb with the arguments it was given, as a shell takes them, and the date: that of SOURCE_DATE_EPOCH
// (seconds since 1970) where the environment has it, else now.
reports::PageOrigin page_origin(const CLI::App& verb);

// Adds --trace-ranks. `what`: what the ranks are, and more about them, for the help.
void add_trace_ranks(CLI::App& verb, std::string& text, const std::string& what);

// Returns the ranks of "0,3,8-11", ascending, each once; none for "". Input errors: what is no list, and ranks that are
// not below `ranks`.
model::Result<std::vector<std::int32_t>> parse_trace_ranks(const std::string& text, std::int64_t ranks);

}  // namespace plumbline::cli
