#include "real/cuda/device/watch/cupti.h"

namespace plumbline::real::cuda {

struct KernelRecorder::State {};

KernelRecorder::KernelRecorder(std::unique_ptr<State> state) : state_(std::move(state)) {}

KernelRecorder::~KernelRecorder() = default;

std::unique_ptr<KernelRecorder> KernelRecorder::open(const std::vector<std::string>&, std::string& error) {
  error = "this build has no CUPTI: its header was not found next to the toolkit's";
  return nullptr;
}

Status KernelRecorder::start() { return {"no CUPTI"}; }

Status KernelRecorder::stop(std::vector<KernelActivity>&) { return {"no CUPTI"}; }

}  // namespace plumbline::real::cuda
