#include "cli/outputs.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "cli/data.h"
#include "cli/detail/temporary_name.h"
#include "cli/progress.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

// Returns what to do about an errno of a file that cannot be written; empty where its name suffices.
std::string remedy(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return "make its folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a file in a folder that is yours to write";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space, or name a file elsewhere";
    default:
      return "";
  }
}

PieceSink into(std::FILE* file) {
  return [file](std::string_view piece) { return std::fwrite(piece.data(), 1, piece.size(), file) == piece.size(); };
}

PieceWriter whole(const std::string& content) {
  return [&content](const PieceSink& sink) { return sink(content); };
}

// Returns the errno of a failure, also where the writer failed without one.
int reason() { return errno != 0 ? errno : EIO; }

// Returns 0 or the errno of the failure. `file` is closed; nullptr is a file that could not be opened.
int write_all(std::FILE* file, const PieceWriter& writer) {
  if (file == nullptr) return errno;
  errno = 0;
  const bool written = writer(into(file));
  const int write_code = written ? 0 : reason();
  const bool closed = std::fclose(file) == 0;
  return written ? (closed ? 0 : reason()) : write_code;
}

// Opens a file that is new. What has its name, a link that was planted there too, is never followed.
std::FILE* open_new(const fs::path& path) {
  constexpr mode_t all = 0666;  // less what the umask takes away
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, all);
  return file < 0 ? nullptr : ::fdopen(file, "wb");
}

// Gives the finished temporary the target's name, and the mode that the target had. A file with several names keeps
// them: it is written in place.
int replace(const fs::path& temporary, const fs::path& target) {
  std::error_code status;
  const auto present = fs::status(target, status);
  if (fs::exists(present)) {
    fs::permissions(temporary, present.permissions(), status);
    if (fs::hard_link_count(target, status) > 1) {
      fs::copy_file(temporary, target, fs::copy_options::overwrite_existing, status);
      return status.value();
    }
  }
  fs::rename(temporary, target, status);
  return status.value();
}

fs::path canonical_path(fs::path path) {
  constexpr int most_links = 40;  // as of Linux
  std::error_code ignored;
  // weakly_canonical() keeps a link whose target is missing.
  for (int links = 0; links < most_links && fs::is_symlink(path, ignored) && !fs::exists(path, ignored); ++links)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  const fs::path found = fs::weakly_canonical(path, ignored);
  return found.empty() ? path : found;
}

// Finds a file by its path, or under another name of a hard link.
auto find_file(const std::map<fs::path, std::string>& files, const fs::path& path) {
  std::error_code ignored;
  const auto found = files.find(path);
  if (found != files.end() || fs::hard_link_count(path, ignored) < 2 || ignored) return found;
  return std::ranges::find_if(files, [&](const auto& file) { return fs::equivalent(file.first, path, ignored); });
}

// A device or a pipe may take several outputs.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !model::is_file(path);
}

bool is_output(const CLI::Option& option) {
  constexpr std::array<std::string_view, 8> names = {"--json",  "--csv", "--svg",       "--html",
                                                     "--trace", "-o",    "--residuals", "--expert-loads"};
  const std::string name = option.get_name(false, true);  // all of its names, separated by commas
  return std::ranges::any_of(names, [&](std::string_view one) {
    return ("," + name + ",").find("," + std::string(one) + ",") != std::string::npos;
  });
}

// Notes the file that a value is or, as KEY=FILE, has, and the files that a TOML file names in quotes.
void note_input(const std::string& value, std::map<fs::path, std::string>& inputs) {
  const std::string text = model::is_file(value) ? value : value.substr(value.find('=') + 1);
  const auto plan = model::is_file(text) ? model::Result<std::string>(text) : resolve(Shipped::plan, text);
  if (!plan || !model::is_file(*plan)) return;
  inputs.emplace(canonical_path(*plan), fmt::format("the input '{}'", text));
  if (!plan->ends_with(".toml")) return;
  const auto content = model::read_text_file(*plan);
  for (std::size_t at = content ? content->find('"') : std::string::npos; at != std::string::npos;) {
    const std::size_t end = content->find('"', at + 1);
    if (end == std::string::npos) return;
    const std::string named = content->substr(at + 1, end - at - 1);
    for (const fs::path& path : {fs::path(*plan).parent_path() / named, fs::path(named)})
      if (model::is_file(path)) inputs.emplace(canonical_path(path), fmt::format("'{}', which {} names", named, text));
    at = content->find('"', end + 1);
  }
}

int print(const PieceWriter& writer) {
  errno = 0;
  const bool written = writer(into(stdout));
  return written && std::fflush(stdout) == 0 ? 0 : reason();
}

// Returns " --gpus 8,16": the option with its values.
std::string option_words(const CLI::Option& option) {
  std::vector<std::string> values = option.results();
  const std::string name = option.get_positional() ? "" : " " + option.get_name();
  if (option.get_items_expected_max() == 0) return name;
  if (option.get_delimiter() != '\0')
    values = {fmt::format("{}", fmt::join(values, std::string(1, option.get_delimiter())))};
  std::string words;
  for (const std::string& value : values) words += fmt::format("{} {}", name, shell_word(value));
  return words;
}

std::string command_words(const CLI::App& verb) {
  std::string words = "plumbline " + verb.get_name();
  std::vector<const CLI::Option*> options = verb.get_options();
  std::ranges::stable_partition(options, [](const CLI::Option* option) { return option->get_positional(); });
  for (const CLI::Option* option : options)
    if (option->count() > 0) words += option_words(*option);
  return words;
}

std::time_t page_time() {
  const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
  const auto seconds = model::parse_number<std::int64_t>(fixed == nullptr ? "" : fixed);
  return seconds ? static_cast<std::time_t>(*seconds) : std::time(nullptr);
}

// A global, because a signal handler has no argument for its state.
std::atomic<const char*> living = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

// Returns 16 digits that no other process draws: numbers of processes repeat between machines and containers.
std::string random_digits() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

}  // namespace

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

model::Failure unwritable(const std::string& path, int code) {
  return model::wrong_input("", fmt::format("cannot write '{}': {}", path, std::strerror(code)), remedy(code));
}

model::Result<void> write_output(const std::string& path_or_dash, const std::string& content) {
  return write_output(path_or_dash, whole(content));
}

model::Result<void> write_output(const std::string& path_or_dash, const PieceWriter& writer) {
  if (path_or_dash == "-") {
    if (const int code = print(writer); code != 0) return unwritable("stdout", code);
    return {};
  }
  std::error_code ignored;
  // A link is kept and its target written; a device or a pipe cannot be replaced and is written in place.
  const fs::path target = canonical_path(path_or_dash);
  if (fs::is_directory(target, ignored)) return unwritable(path_or_dash, EISDIR);
  if (is_special(target)) {
    if (const int code = write_all(std::fopen(target.c_str(), "wb"), writer); code != 0)
      return unwritable(path_or_dash, code);
    return {};
  }
  const TemporaryName temporary(target);
  int code = write_all(open_new(temporary.path()), writer);
  if (code == 0) code = replace(temporary.path(), target);
  if (code != 0) return unwritable(path_or_dash, code);
  return {};
}

model::Result<void> write_output_in(const std::string& folder, const std::string& name, const std::string& content) {
  const fs::path path = fs::path(folder) / name, target = canonical_path(path);
  const fs::path inside = target.lexically_relative(canonical_path(folder));
  if (inside.empty() || *inside.begin() == "..")
    return model::wrong_input(
        "", fmt::format("cannot write '{}': a link leads to '{}', out of '{}'", path.string(), target.string(), folder),
        "remove the link, or name another folder");
  std::error_code failed;
  fs::create_directories(target.parent_path(), failed);
  if (failed) return unwritable(path.string(), failed.value());
  return write_output(target.string(), content);
}

model::Result<void> write_new_file(const std::string& path, const std::string& content) {
  const TemporaryName temporary(path);
  int code = write_all(open_new(temporary.path()), whole(content));
  if (code == 0) {
    std::error_code status;
    fs::create_hard_link(temporary.path(), path, status);  // unlike a rename, it fails where the name is taken
    code = status.value();
  }
  if (code != 0) return unwritable(path, code);
  return {};
}

model::Result<void> check_outputs(const CLI::App& root) {
  std::map<fs::path, std::string> inputs, outputs;  // what each file is
  std::set<std::string> on_stdout;
  for (const CLI::App* verb : root.get_subcommands())
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& value : option->results())
        if (!is_output(*option)) note_input(value, inputs);
  for (const CLI::App* verb : root.get_subcommands()) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& value : option->results()) {
        const std::string name = option->get_name();
        if (value == "-") on_stdout.insert(name);
        if (!is_output(*option) || value == "-") continue;
        if (value.empty()) return model::wrong_input(name, "names no file", "name one, or - for stdout");
        const fs::path path = canonical_path(value);
        if (const auto input = find_file(inputs, path); input != inputs.end())
          return model::wrong_input(name, fmt::format("'{}' would overwrite {}", value, input->second),
                                    "name another file");
        if (const auto other = find_file(outputs, path); other != outputs.end() && !is_special(path))
          return model::wrong_input(name, fmt::format("'{}' is the file of {} too", value, other->second),
                                    "name another file");
        outputs.emplace(path, name);
      }
    }
  }
  if (on_stdout.size() > 1)
    return model::wrong_input(*on_stdout.begin(), "only one output can go to stdout", "give the others a file");
  return {};
}

std::string now_in_utc() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

model::Result<int> printed(const std::string& text) {
  return write_output("-", text).map([] { return 0; });
}

int code_of(const model::Error& error) {
  if (error.kind == model::ErrorKind::interrupted) return interrupted_exit();
  return error.kind == model::ErrorKind::infeasible ? 2 : 1;
}

int report(const model::Error& error) {
  model::Error told = error;
  if (error.kind == model::ErrorKind::interrupted && error.hint.empty()) told.hint = "no output was written";
  std::fputs(fmt::format("plumbline: {}\n", model::to_string(told)).c_str(), stderr);  // fmt::print throws
  return code_of(error);
}

int exit_of(const model::Result<int>& done) { return done ? *done : report(done.error()); }

int exit_of(const model::Result<void>& done) { return done ? 0 : report(done.error()); }

void Outputs::add(CLI::App& verb, const std::string& option, const std::string& help) {
  verb.add_option(option, paths_[option], help);
}

void Outputs::add_page(CLI::App& verb) {
  verb_ = &verb;
  add(verb, "--html", "Write a self-contained page to a file, or - for stdout");
}

bool Outputs::to_stdout() const {
  return std::ranges::any_of(paths_, [](const auto& output) { return output.second == "-"; });
}

model::Result<void> Outputs::print(const std::string& text) const {
  if (to_stdout()) return {};
  return write_output("-", text);
}

model::Result<void> Outputs::check_among(const std::vector<std::string>& options, std::string_view subject) const {
  for (const auto& [option, path] : paths_)
    if (!path.empty() && std::ranges::find(options, option) == options.end())
      return model::wrong_input(option, fmt::format("{} has no such output", subject),
                                fmt::format("it has {}", fmt::join(options, ", ")));
  return {};
}

model::Result<void> Outputs::write(std::initializer_list<Form> forms,
                                   const std::function<std::string()>& page_data) const {
  for (const Form& form : forms) {
    if (!given(form.option)) continue;
    const std::string& path = paths_.at(form.option);
    if (form.pieces)
      TRY(write_output(path, form.pieces));
    else
      TRY(form.content().and_then([&](const std::string& content) { return write_output(path, content); }));
  }
  const auto json = std::ranges::find(forms, "--json", &Form::option);
  if (json == forms.end() || !given("--html")) return {};
  const reports::PageResult answer{TRY(json->content()), page_data ? page_data() : "", {}};
  return write_output(paths_.at("--html"), reports::page_html({answer}, page_origin(*verb_)));
}

reports::PageOrigin page_origin(const CLI::App& verb) {
  return {command_words(verb), source_revision(), fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(page_time()))};
}

void add_trace_ranks(CLI::App& verb, std::string& text, const std::string& what) {
  verb.add_option("--trace-ranks", text, "With --trace: these " + what)->type_name("0,3,8-11");
}

model::Result<std::vector<std::int32_t>> parse_trace_ranks(const std::string& text, std::int64_t ranks) {
  std::set<std::int32_t> found;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto first = model::parse_number<std::int32_t>(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : model::parse_number<std::int32_t>(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first)
      return model::wrong_input("--trace-ranks", fmt::format("'{}' is no rank and no range of ranks", part),
                                "for example 0,3,8-11");
    if (*last >= ranks)
      return model::wrong_input("--trace-ranks", fmt::format("there is no rank {}", *last),
                                fmt::format("ranks are 0 to {}", ranks - 1));
    for (std::int32_t rank = *first; rank <= *last; ++rank) found.insert(rank);
  }
  return std::vector<std::int32_t>(found.begin(), found.end());
}

TemporaryName::TemporaryName(const std::filesystem::path& target)
    : path_(fmt::format("{}.tmp-{}", target.string(), random_digits())) {
  living = path_.c_str();
}

TemporaryName::~TemporaryName() {
  living = nullptr;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void remove_temporary() {
  if (const char* path = living) ::unlink(path);
}

}  // namespace plumbline::cli
