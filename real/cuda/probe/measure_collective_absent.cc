// A build that found no nccl.h.
#include <utility>

#include "real/cuda/probe/measure_collective.h"

namespace plumbline::real::cuda {

struct Collectives::State {};

Collectives::Collectives(World world) : world_(std::move(world)) {}

Collectives::~Collectives() = default;

Status Collectives::open(const std::vector<std::string>&) { return {"this probe was built where there was no nccl.h"}; }

Status Collectives::measure(const Case&, const MeasureOptions&, Toolbox& tools, std::vector<Measurement>&) {
  return open(tools.folders);
}

}  // namespace plumbline::real::cuda
