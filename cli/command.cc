#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/data.h"
#include "cli/manual/manual.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/base/version.h"
#include "real/cuda/backend.h"
#include "real/host/comm/communicator.h"
#include "reports/text/table.h"
#include "sim/tasks/tasks.h"

namespace plumbline::cli {
namespace {

constexpr int no_device = 77;

}  // namespace

// The help of the command and of its verbs, at most 80 columns wide.

// Descriptions wrap in their column, lists of values at commas, commands of examples as a shell continues them.
std::shared_ptr<CLI::Formatter> help_formatter();

namespace {

constexpr std::size_t description_column = 30;  // CLI::Formatter's

std::string with_blanks_after_commas(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == ',') out += ' ';
  }
  return out;
}

std::string wrapped_line(const std::string& line) {
  if (reports::code_points(line) <= reports::terminal_width) return line + '\n';
  const std::size_t blanks = line.find_first_not_of(' ');
  const std::string indent(blanks, ' ');
  const std::string_view text = std::string_view(line).substr(blanks);
  constexpr std::size_t deeper = 4;
  if (text.starts_with("plumbline ") || text.starts_with("mpirun "))
    return indent + reports::hanging(text, blanks + deeper, " \\");
  const bool described = blanks > 0 && blanks <= description_column && line[description_column - 1] == ' ' &&
                         line[description_column] != ' ';
  if (described)
    return line.substr(0, description_column) +
           reports::hanging(std::string_view(line).substr(description_column), description_column);
  if (text.starts_with("-")) return indent + reports::hanging(with_blanks_after_commas(text), blanks + deeper);
  return indent + reports::hanging(text, blanks);
}

bool is_prose(std::string_view line) {
  return !line.empty() && line.front() != ' ' && line.back() != ':' && !line.starts_with("Usage:");
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::istringstream help(CLI::Formatter::make_help(app, std::move(name), mode));
    std::string out, prose;  // lines of prose are one paragraph, whatever their breaks in the sources
    for (std::string line; std::getline(help, line);) {
      if (is_prose(line)) {
        prose += (prose.empty() ? "" : " ") + line;
        continue;
      }
      if (!prose.empty()) out += wrapped_line(std::exchange(prose, ""));
      out += wrapped_line(line);
    }
    return prose.empty() ? out : out + wrapped_line(prose);
  }
};

// Takes --wide out of the arguments, which every verb has; returns how many are left.
int take_wide(int argc, char** argv) {
  char** const end =
      std::remove_if(argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--wide") == 0; });
  if (end != argv + argc) ::setenv("PLUMBLINE_WIDE", "1", 1);
  return static_cast<int>(end - argv);
}

// Opens the standard streams that the process was started without, so that no output gets their numbers and their text:
// stdin at its end, stdout such that nothing can be written, stderr such that all is dropped.
void open_streams() {
  for (const auto& [stream, mode] :
       {std::pair(STDIN_FILENO, O_RDONLY), {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}})
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", mode) != stream) return;
}

// Enlarges the stack of this process and those of its threads where they are limited to less than what verbs take.
// Error: it may not be enlarged.
model::Result<void> claim_stack() {
  constexpr rlim_t needed = 1 << 20;  // bytes; of 256 KiB no verb was seen to need more
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= needed) return {};
  const rlimit enlarged{needed, std::max(needed, limit.rlim_max)};
  if (::setrlimit(RLIMIT_STACK, &enlarged) != 0)
    return model::wrong_input("", fmt::format("the stack is limited to {} KiB", limit.rlim_cur >> 10),
                              fmt::format("ulimit -s {} is enough", needed >> 10));
  pthread_attr_t threads{};
  if (::pthread_attr_init(&threads) != 0) return {};
  ::pthread_attr_setstacksize(&threads, needed);
  ::pthread_setattr_default_np(&threads);
  ::pthread_attr_destroy(&threads);
  return {};
}

// Refuses an address space in which threads find no place for their stacks and the allocator none for its arenas, of
// which jemalloc 5.3 then uses one that is not there. Error: it is smaller.
model::Result<void> check_address_space() {
  // A prediction with its interval was seen to end well with 117 MiB on two cores.
  constexpr rlim_t alone = 96, of_thread = 16;  // MiB
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const rlim_t needed = alone + of_thread * std::max(1U, std::thread::hardware_concurrency());
  if (limit.rlim_cur >> 20 >= needed) return {};
  return model::wrong_input("", fmt::format("memory is limited to {} MiB", limit.rlim_cur >> 20),
                            fmt::format("ulimit -v {} is enough to start here", needed << 10));
}

int stdout_failure() { return report(unwritable("stdout", errno).value()); }

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<HelpFormatter>(); }

void add_plan_arguments(CLI::App& verb, PlanArguments& arguments) {
  verb.add_option("PLAN", arguments.plan, "Plan file, or the name of a shipped example")->required();
  add_repeatable(verb, "--set", arguments.overrides, "Override a key: --set parallelism.pipeline=8 (repeatable)");
  verb.add_flag("--print-plan", arguments.print, "Print the effective plan with every default, then stop");
}

void add_repeatable(CLI::App& verb, const std::string& option, std::vector<std::string>& values,
                    const std::string& help) {
  verb.add_option(option, values, help)->take_all()->allow_extra_args(false);
}

model::Result<void> refuse_given(std::initializer_list<std::pair<const char*, bool>> options, std::string_view message,
                                 std::string_view hint) {
  for (const auto& [option, given] : options)
    if (given) return model::wrong_input(option, std::string(message), std::string(hint));
  return {};
}

bool color() {
  const char* off = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (off == nullptr || *off == '\0');
}

int command(int argc, char** argv, const World& world) {
  open_streams();
  handle_signals();
  if (const auto able = check_address_space().and_then(claim_stack); !able)
    return world.is_root ? report(able.error()) : code_of(able.error());
  sim::keep_to_startable_threads();
  if (argc > 1) argc = take_wide(argc, argv);
  CLI::App app{"plumbline predicts what training a large model costs, and proves it.", "plumbline"};
  app.formatter(help_formatter());
  const auto version = [] {
    return fmt::format("plumbline {}\nrevision {}\n{}\noutput contract {}", model::version, source_revision(),
                       PLUMBLINE_FEATURES, model::schema);
  };
  app.set_version_flag("--version", version, "Print version, revision and features, then exit");
  app.add_flag("--wide")->description(
      "Print tables as wide as they are, before or after the verb (default: 80 columns)");
  app.require_subcommand(0, 1);
  int exit_code = 0;
  add_plan(app, exit_code, world);
  add_simulate(app, exit_code);
  add_campaign(app, exit_code, world);
  add_memory(app, exit_code);
  add_serve(app, exit_code);
  add_schedule(app, exit_code);
  add_sweep(app, exit_code, world);
  add_validate(app, exit_code);
  add_compare(app, exit_code);
  add_measure(app, exit_code, world);
  add_calibrate(app, exit_code);
  add_run(app, exit_code, world);
  add_show(app, exit_code);
  add_import(app, exit_code);
  add_export(app, exit_code);
  add_report(app, exit_code);
  add_playground(app, exit_code);
  app.parse_complete_callback([&] {
    if (const auto checked = check_outputs(app); !checked)
      throw CLI::RuntimeError(world.is_root ? report(checked.error()) : code_of(checked.error()));
  });
  add_manual(app, exit_code);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::Success& asked) {  // --help and --version
    std::ostringstream discarded;        // the process of rank 0 prints what all have
    exit_code = world.is_root ? app.exit(asked) : app.exit(asked, discarded, discarded);
  } catch (const CLI::RuntimeError& reported) {
    exit_code = reported.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const model::Error problem = parse_problem(app, error);
    exit_code = world.is_root ? report(problem) : code_of(problem);
  } catch (const std::bad_alloc&) {
    return report({model::ErrorKind::input, "out of memory", "", 0, "", "give it more, or fewer --threads"});
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return stdout_failure();  // fmt::print throws
    return report({model::ErrorKind::input, error.what(), "", 0, "", ""});
  }
  // What is still buffered may not fit on the disk behind stdout; an error that was reported is not followed by
  // another.
  constexpr int wrong_input = 1;
  if (exit_code == wrong_input) return exit_code;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return stdout_failure();
  return exit_code;
}

real::host::DeviceOptions World::device(real::host::DeviceOptions wanted) const {
  if (simulated.now == nullptr) return wanted;
  wanted.clock = real::host::ClockKind::simulated;
  wanted.simulated = simulated;
  wanted.threads = false;
  return wanted;
}

int World::report(const model::Error& error) const { return is_root ? cli::report(error) : code_of(error); }

model::Result<real::Bootstrap> job_of(const World& world) {
  auto job = real::read_bootstrap();
  if (!job || world.transport == nullptr) return job;
  job->rank = world.transport->rank();
  job->ranks = world.transport->ranks();
  return job;
}

model::Result<std::unique_ptr<real::ControlChannel>> channel_of(const real::Bootstrap& job, const World& world,
                                                                real::ChannelOptions options) {
  if (world.transport != nullptr) return real::host::make_control_channel(*world.transport);
  options.program = fmt::format("plumbline {} of revision {}", model::version, source_revision());
  options.log = [](const std::string& line) { fmt::print(stderr, "plumbline: {}\n", line); };
  return real::connect(job, options);
}

model::Result<int> look_for_gpus(real::ControlChannel& channel, int device) {
  const auto own = real::cuda::describe_gpu(device);
  const bool ready = own.presence == real::cuda::GpuPresence::ready;
  const auto all = TRY(channel.gather(ready ? "" : own.message));
  int code = own.presence == real::cuda::GpuPresence::not_built ? 2 : no_device;
  bool missing = false;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string& reason = all[rank];
    if (reason.empty()) continue;
    missing = true;
    fmt::print(stderr, "plumbline: {}{}\n", channel.ranks() > 1 ? fmt::format("rank {}: ", rank) : "", reason);
  }
  if (missing && own.presence == real::cuda::GpuPresence::not_built)
    fmt::print(stderr, "build it where the CUDA toolkit is: cmake -D PLUMBLINE_CUDA=ON\n");
  return std::stoi(TRY(channel.broadcast(missing ? std::to_string(code) : "0")));
}

}  // namespace plumbline::cli
