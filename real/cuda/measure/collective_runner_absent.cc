// A build that found no nccl.h.
#include "real/cuda/measure/collective_runner.h"

namespace plumbline::real::cuda {

struct Collectives::State {};

class Collectives::Collective final : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;
  Status prepare() override { return {"this build found no nccl.h"}; }

 protected:
  Status take(std::size_t /*round*/, Times& /*times*/) override { return prepare(); }
};

Collectives::Collectives(ControlChannel& channel) : channel_(channel) {}

Collectives::~Collectives() = default;

std::unique_ptr<CaseRunner> Collectives::make_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<Collective>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
