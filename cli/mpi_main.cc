// The command `plumbline` as a rank of MPI: plumbline-mpi under mpirun, plumbline-smpi under smpirun.
#include <filesystem>
#include <string>

#include "cli/world.h"
#include "real/host/mpi/mpi_transport.h"

int main(int argc, char** argv) {
  namespace cli = plumbline::cli;
  namespace host = plumbline::real::host;
  const host::MpiSession session(&argc, &argv);
  // A simulator has loaded this program: the shipped data are next to the file that it loaded.
  const std::string data = (std::filesystem::path(argv[0]).parent_path() / "share/plumbline").string();
  if (!session.threads()) ::setenv("PLUMBLINE_DATA", data.c_str(), 0);
  const auto transport =
      host::mpi_transport(session.threads() ? host::MpiWaiting::polling : host::MpiWaiting::blocking);
  cli::World world;
  world.is_root = session.rank() == 0;
  world.transport = transport.get();
  if (!session.threads()) world.simulated = {&host::MpiSession::time, &host::MpiSession::compute};
  return cli::command(argc, argv, world);
}
