#include "cli/import/detail/execution.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>  // kill is POSIX
#include <cstdlib>  // mkdtemp is POSIX
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/import/detail/recorder.h"
#include "cli/progress.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
namespace megatron = model::megatron;
using Clock = std::chrono::steady_clock;

constexpr auto pause_between_looks = std::chrono::milliseconds(10);
constexpr auto longest_leftover = std::chrono::seconds(10);  // that what a script leaves in the background may take
constexpr std::size_t most_files = 500, largest_file = 1 << 16;

class Folder {
 public:
  Folder() {
    std::error_code ignored;
    std::string name = (fs::temp_directory_path(ignored) / "plumbline-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = fs::canonical(name, ignored);
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Copies what the script may source or start by a path relative to its folder, so that nothing is written there, and
// makes an empty file of each .py that it names: scripts ask whether their program is there.
void put_files(const fs::path& script, const std::string& text, const fs::path& work) {
  std::error_code failed;
  std::size_t seen = 0;
  const fs::path folder = script.parent_path();
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failed), end;
       !failed && at != end && ++seen <= most_files; at.increment(failed)) {
    if (at.depth() == 2) at.disable_recursion_pending();
    std::error_code ignored;
    const fs::path name = at->path().lexically_relative(folder);
    const bool wanted = name.extension() == ".sh" || name.extension() == ".env" || name.extension() == ".conf";
    if (!wanted || !at->is_regular_file(ignored) || at->file_size(ignored) > largest_file) continue;
    fs::create_directories((work / name).parent_path(), ignored);
    fs::copy_file(at->path(), work / name, ignored);
  }
  std::string word;
  for (const char letter : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
        std::string_view("_./-").find(letter) != std::string_view::npos) {
      word += letter;
      continue;
    }
    const fs::path program = std::exchange(word, "");
    const bool inside =
        program.extension() == ".py" && program.is_relative() && !program.lexically_normal().string().starts_with("..");
    if (!inside || fs::exists(work / program, failed)) continue;
    fs::create_directories((work / program).parent_path(), failed);
    std::ofstream(work / program);
  }
}

// The programs that the recorder stands for, separated by blanks.
constexpr std::string_view recorded_programs =
    // what trains, and what starts it
    "torchrun python python3 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 deepspeed accelerate "
    "megatron srun salloc sbatch mpirun mpiexec prun jsrun aprun docker podman nerdctl apptainer singularity enroot "
    "nsys ncu numactl sh dash zsh env nohup timeout nice stdbuf setsid taskset "
    // what a cluster answers
    "nvidia-smi scontrol hostname "
    // what changes files
    "rm rmdir mv cp ln touch mkdir chmod chown truncate dd tee shred install rsync "
    // what reaches out, waits, installs or ends
    "cd wget curl git pip pip3 uv pyenv conda mamba module ml apt apt-get yum dnf ssh scp sftp pdsh clush kubectl aws "
    "gsutil "
    "hf huggingface-cli wandb ray scancel sudo sleep pkill killall systemctl reboot shutdown";

bool put_recorders(const fs::path& folder) {
  std::error_code failed;
  for (const char* name : {"programs", "records", "outer", "work"}) fs::create_directory(folder / name, failed);
  const fs::path program = folder / "programs" / ".recorder";
  std::ofstream(program) << recorder;
  std::ofstream(folder / "setup") << recorder_setup;
  fs::permissions(program, fs::perms::owner_all, failed);
  for (const std::string_view name : model::split_at(recorded_programs, ' '))
    if (!failed && !name.empty()) fs::create_symlink(".recorder", folder / "programs" / name, failed);
  return !failed && ::access(program.c_str(), X_OK) == 0;  // else PATH would lead past it
}

std::vector<std::string> environment_of(const ScriptExecution& what, const fs::path& folder) {
  megatron::Definitions variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos)
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : what.environment) variables[name] = value;
  variables["PLUMBLINE_FOLDER"] = folder.string();
  variables["PLUMBLINE_GPUS"] = std::to_string(what.gpus_per_node);
  variables["BASH_ENV"] = (folder / "setup").string();
  variables["PATH"] = fmt::format("{}:{}", (folder / "programs").string(), variables["PATH"]);
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts bash as a process group of its own; returns an error of the system, or 0.
int start(std::vector<std::string> command, std::vector<std::string> environment, const fs::path& output,
          pid_t& process) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const auto words = pointers_of(command), variables = pointers_of(environment);
  const int failed = posix_spawnp(&process, words[0], &actions, &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

// Waits for the script, then for what it left in the background, and ends all of it. Returns the script's status;
// nothing at the deadline, or at an interruption.
std::optional<int> wait_for(pid_t process, Clock::time_point deadline, const Interrupt& interrupt) {
  std::optional<int> status;
  const auto goes_on = [&] { return Clock::now() < deadline && !interrupt.requested(); };
  for (int code = 0; !status && goes_on(); std::this_thread::sleep_for(pause_between_looks))
    if (::waitpid(process, &code, WNOHANG) == process)
      status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  deadline = std::min(deadline, Clock::now() + longest_leftover);
  while (status && ::kill(-process, 0) == 0 && goes_on()) std::this_thread::sleep_for(pause_between_looks);
  ::kill(-process, SIGKILL);
  if (!status) ::waitpid(process, nullptr, 0);
  return status;
}

// Reads a record: its kind, the number of words, the words, variables.
void read_record(const std::string& text, megatron::Execution& out) {
  std::vector<std::string> parts;
  for (const std::string_view part : model::split_at(text, '\0')) parts.emplace_back(part);
  const auto count = parts.size() > 2 ? model::parse_number<std::size_t>(parts[1]) : std::nullopt;
  if (!count || *count < 1 || parts.size() < *count + 3) return;  // was ended while it was written
  if (parts[0] == "started") {
    megatron::Command command;
    for (std::size_t i = 0; i < *count; ++i) command.push_back({parts[i + 2], 0});
    out.started.push_back(std::move(command));
  } else if (auto& names = parts[0] == "answered" ? out.answered : out.skipped;
             std::ranges::find(names, parts[2]) == names.end()) {
    names.push_back(parts[2]);
  }
  for (std::size_t i = *count + 2; i < parts.size(); ++i)
    if (const std::size_t equals = parts[i].find('='); equals != std::string::npos)
      out.variables.emplace(parts[i].substr(0, equals), parts[i].substr(equals + 1));
}

// Whether the script has options of Slurm before its first command: it is started as sbatch does.
bool has_header(const std::string& text) {
  for (const std::string_view line : model::lines_of(text)) {
    if (line.starts_with("#SBATCH")) return true;
    if (!line.empty() && line[0] != '#') return false;
  }
  return false;
}

// Returns the options of sbatch for Slurm's variables that are given: they take precedence over the script's header.
std::vector<std::string> options_for(const megatron::Definitions& given) {
  constexpr std::pair<const char*, const char*> names[] = {{"SLURM_NNODES", "--nodes"},
                                                           {"SLURM_JOB_NUM_NODES", "--nodes"},
                                                           {"SLURM_NTASKS", "--ntasks"},
                                                           {"SLURM_NTASKS_PER_NODE", "--ntasks-per-node"},
                                                           {"SLURM_GPUS_PER_NODE", "--gpus-per-node"},
                                                           {"SLURM_GPUS_ON_NODE", "--gpus-per-node"}};
  std::vector<std::string> options;
  for (const auto& [variable, option] : names)
    if (const auto value = given.find(variable); value != given.end())
      options.push_back(fmt::format("{}={}", option, value->second));
  return options;
}

std::string last_line(const std::string& text) {
  const auto lines = model::lines_of(text);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) { return !line.empty(); });
  return last == lines.rend() ? "" : std::string(*last);
}

}  // namespace

model::Result<megatron::Execution> execute(const ScriptExecution& what) {
  const Interrupt interrupt;
  const Folder folder;
  std::error_code failed;
  const fs::path script = fs::absolute(what.script, failed).lexically_normal();
  const std::string text = TRY(model::read_text_file(what.script));
  if (folder.path().empty() || !put_recorders(folder.path()))
    return model::wrong_input("--execute", "no folder can be made for the script",
                              "TMPDIR needs free space, and may not be mounted noexec");
  const fs::path work = folder.path() / "work", output = folder.path() / "output";
  put_files(script, text, work);
  const bool batch = has_header(text);
  std::vector<std::string> command = {"bash", "-c", "builtin cd -- \"$0\" && exec \"$@\"", work.string(),
                                      batch ? "sbatch" : "bash"};
  if (batch)
    for (std::string& option : options_for(what.environment)) command.push_back(std::move(option));
  command.push_back(script.string());
  command.insert(command.end(), what.arguments.begin(), what.arguments.end());
  pid_t process = 0;
  if (const int error = start(command, environment_of(what, folder.path()), output, process); error != 0)
    return model::wrong_input("--execute", fmt::format("bash cannot be started: {}", std::strerror(error)));
  const auto status = wait_for(process, Clock::now() + what.deadline, interrupt);
  if (interrupt.requested()) return model::interrupted("--execute", "was interrupted, and the script was ended");
  megatron::Execution out;
  for (int number = 1; number < 10'000; ++number) {
    const auto record = model::read_file((folder.path() / "records" / std::to_string(number)).string());
    if (!record) break;
    read_record(*record, out);
  }
  const std::string reported = last_line(model::read_file(output.string()).value_or(""));
  if (!status)
    out.ending = fmt::format("was ended after {:g} s", std::chrono::duration<double>(what.deadline).count());
  else if (*status != 0)
    out.ending = fmt::format("ended with status {}{}{}", *status, reported.empty() ? "" : ": ", reported);
  return out;
}

}  // namespace plumbline::cli
