#include "cli/outputs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "cli/data.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

model::Failure failure(const std::string& path, int code) {
  return model::wrong_input("", fmt::format("cannot write '{}': {}", path, std::strerror(code)));
}

PieceSink into(std::FILE* file) {
  return [file](std::string_view piece) { return std::fwrite(piece.data(), 1, piece.size(), file) == piece.size(); };
}

PieceWriter whole(const std::string& content) {
  return [&content](const PieceSink& sink) { return sink(content); };
}

// Returns 0 or the errno of the failure.
int write_all(const fs::path& path, const PieceWriter& writer) {
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return errno;
  const bool written = writer(into(file));
  const int write_code = written ? 0 : errno;
  const bool closed = std::fclose(file) == 0;
  return written ? (closed ? 0 : errno) : write_code;
}

std::string temporary_name(const fs::path& target) { return fmt::format("{}.tmp-{}", target.string(), ::getpid()); }

fs::path canonical_path(const fs::path& path) {
  std::error_code ignored;
  const fs::path found = fs::weakly_canonical(path, ignored);
  return found.empty() ? path : found;
}

bool is_regular(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// A device or a pipe may take several outputs.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

bool is_output(const CLI::Option& option) {
  constexpr std::array<std::string_view, 6> names = {"--json", "--csv", "--svg", "--html", "--trace", "-o"};
  const std::string name = option.get_name(false, true);  // all of its names, separated by commas
  return std::ranges::any_of(names, [&](std::string_view one) {
    return ("," + name + ",").find("," + std::string(one) + ",") != std::string::npos;
  });
}

// Notes the file that a value is or, as KEY=FILE, has, and the files that a TOML file names in quotes.
void note_input(const std::string& value, std::map<fs::path, std::string>& inputs) {
  const std::string text = is_regular(value) ? value : value.substr(value.find('=') + 1);
  const auto plan = is_regular(text) ? model::Result<std::string>(text) : resolve(Shipped::plan, text);
  if (!plan || !is_regular(*plan)) return;
  inputs.emplace(canonical_path(*plan), fmt::format("the input '{}'", text));
  if (!plan->ends_with(".toml")) return;
  const auto content = model::read_text_file(*plan);
  for (std::size_t at = content ? content->find('"') : std::string::npos; at != std::string::npos;) {
    const std::size_t end = content->find('"', at + 1);
    if (end == std::string::npos) return;
    const std::string named = content->substr(at + 1, end - at - 1);
    for (const fs::path& path : {fs::path(*plan).parent_path() / named, fs::path(named)})
      if (is_regular(path)) inputs.emplace(canonical_path(path), fmt::format("'{}', which {} names", named, text));
    at = content->find('"', end + 1);
  }
}

int print(const PieceWriter& writer) {
  errno = 0;
  const bool written = writer(into(stdout));
  return written && std::fflush(stdout) == 0 ? 0 : errno;
}

}  // namespace

model::Result<void> write_output(const std::string& path_or_dash, const std::string& content) {
  return write_output(path_or_dash, whole(content));
}

model::Result<void> write_output(const std::string& path_or_dash, const PieceWriter& writer) {
  if (path_or_dash == "-") {
    if (const int code = print(writer); code != 0) return failure("stdout", code);
    return {};
  }
  std::error_code ignored;
  // A link is kept and its target written; a device or a pipe cannot be replaced and is written in place.
  const fs::path target = canonical_path(path_or_dash);
  if (fs::is_directory(target, ignored)) return failure(path_or_dash, EISDIR);
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    if (const int code = write_all(target, writer); code != 0) return failure(path_or_dash, code);
    return {};
  }
  const fs::path temporary = temporary_name(target);
  int code = write_all(temporary, writer);
  if (code == 0) {
    std::error_code renamed;
    fs::rename(temporary, target, renamed);
    code = renamed.value();
  }
  if (code != 0) {
    fs::remove(temporary, ignored);
    return failure(path_or_dash, code);
  }
  return {};
}

model::Result<void> write_new_file(const std::string& path, const std::string& content) {
  const fs::path temporary = temporary_name(path);
  int code = write_all(temporary, whole(content));
  std::error_code status;
  if (code == 0) {
    fs::create_hard_link(temporary, path, status);  // unlike a rename, it fails where the name is taken
    code = status.value();
  }
  fs::remove(temporary, status);
  if (code != 0) return failure(path, code);
  return {};
}

model::Result<void> check_outputs(const CLI::App& root) {
  std::map<fs::path, std::string> inputs, outputs;  // what each file is
  for (const CLI::App* verb : root.get_subcommands())
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& value : option->results())
        if (!is_output(*option)) note_input(value, inputs);
  for (const CLI::App* verb : root.get_subcommands()) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& value : option->results()) {
        if (!is_output(*option) || value == "-" || value.empty()) continue;
        const std::string name = option->get_name();
        const fs::path path = canonical_path(value);
        if (const auto input = inputs.find(path); input != inputs.end())
          return model::wrong_input(name, fmt::format("'{}' would overwrite {}", value, input->second),
                                    "name another file");
        if (const auto [other, fresh] = outputs.emplace(path, name); !fresh && !is_special(path))
          return model::wrong_input(name, fmt::format("'{}' is the file of {} too", value, other->second),
                                    "name another file");
      }
    }
  }
  return {};
}

std::string now_in_utc() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

model::Result<int> printed(const std::string& text) {
  return write_output("-", text).map([] { return 0; });
}

int code_of(const model::Error& error) { return error.kind == model::ErrorKind::infeasible ? 2 : 1; }

int report(const model::Error& error) {
  fmt::print(stderr, "plumbline: {}\n", model::to_string(error));
  return code_of(error);
}

int exit_of(const model::Result<int>& done) { return done ? *done : report(done.error()); }

int exit_of(const model::Result<void>& done) { return done ? 0 : report(done.error()); }

void Outputs::add(CLI::App& verb, const std::string& option, const std::string& help) {
  verb.add_option(option, paths_[option], help);
}

bool Outputs::any() const {
  return std::ranges::any_of(paths_, [](const auto& output) { return !output.second.empty(); });
}

bool Outputs::to_stdout() const {
  return std::ranges::any_of(paths_, [](const auto& output) { return output.second == "-"; });
}

model::Result<void> Outputs::check() const {
  const auto dash = [](const auto& output) { return output.second == "-"; };
  if (std::ranges::count_if(paths_, dash) < 2) return {};
  const std::string& first = std::ranges::find_if(paths_, dash)->first;
  return model::wrong_input(first, "only one output can go to stdout",
                            paths_.size() > 2 ? "give the others a file" : "give the other a file");
}

model::Result<void> Outputs::write(std::initializer_list<Form> forms) const {
  for (const Form& form : forms) {
    if (!given(form.option)) continue;
    const std::string& path = paths_.at(form.option);
    if (form.pieces)
      TRY(write_output(path, form.pieces));
    else
      TRY(write_output(path, form.content()));
  }
  return {};
}

}  // namespace plumbline::cli
