// The command `plumbline` as a rank of MPI: plumbline-mpi under mpirun, plumbline-smpi under smpirun.
#include "cli/world.h"
#include "real/host/mpi/mpi_session.h"
#include "real/host/mpi/mpi_transport.h"

int main(int argc, char** argv) {
  namespace cli = plumbline::cli;
  namespace host = plumbline::real::host;
  const host::MpiSession session(&argc, &argv);
  cli::World world;
  world.speaks = session.rank() == 0;
  world.simulated = !session.threads();
  world.run = [&](const host::RunInput& input, host::RunOptions options,
                  const plumbline::real::StepObserver& observer) {
    if (!session.threads()) {
      options.device.threads = false;
      options.device.clock = host::ClockKind::simulated;
      options.device.simulated_time = &host::MpiSession::time;
    }
    const auto transport =
        host::mpi_transport(session.threads() ? host::MpiWaiting::polling : host::MpiWaiting::blocking);
    return host::run_rank(input, options, *transport, observer);
  };
  return cli::command(argc, argv, world);
}
