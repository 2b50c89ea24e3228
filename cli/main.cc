// The command `plumbline`.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/data.h"
#include "cli/world.h"

// jemalloc keeps what was freed: returned pages would be asked for again by the next plan, which takes a search a
// twentieth of its time.
extern "C" const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1";

namespace {

// Returns the number of processes that MPI started, including this one; 1 without MPI.
int started_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 1;
}

// Whether the run is on GPUs, whose ranks find each other without MPI.
bool on_gpus(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (const std::string_view word = argv[i]; word == "cuda" || word == "--backend=cuda") return true;
  return false;
}

}  // namespace

// Under mpirun the ranks of a run, and of what is spread, are its processes: the program that is linked with MPI
// replaces this one. Without it processes find each other as those of GPUs do.
int main(int argc, char** argv) {
  namespace cli = plumbline::cli;
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const bool spread = verb == "campaign" || verb == "plan" || verb == "sweep";
  if ((verb == "run" || spread) && started_ranks() > 1) {
    ::setenv("NO_COLOR", "1", 0);  // mpirun gives ranks a terminal, also where its own output is a file
    if (const auto program = cli::find_program("plumbline-mpi")) {
      argv[0] = const_cast<char*>(program->c_str());
      ::execv(program->c_str(), argv);
    }
    if (spread || on_gpus(argc, argv)) return cli::command(argc, argv, {});
    fmt::print(stderr, "plumbline: this build has no MPI, although mpirun started it\n");
    constexpr int infeasible = 2;
    return infeasible;
  }
  return cli::command(argc, argv, {});
}
