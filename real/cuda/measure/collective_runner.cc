// Collectives between ranks through NCCL. A single rank tests the code path, but no link.
#include "real/cuda/measure/collective_runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/expected.h"
#include "real/cuda/measure/timing.h"
#include "real/cuda/measure/transfer.h"
#include "real/cuda/vendor/nccl.h"

namespace plumbline::real::cuda {

struct Collectives::State {
  std::unique_ptr<Nccl> nccl;
  ncclComm_t communicator = nullptr;

  State() = default;
  ~State() {
    if (communicator != nullptr) nccl->destroy(communicator);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

namespace {

constexpr std::uint64_t seed_input = 61, seed_elements = 71;  // the input of rank r: seed_input + r
constexpr int sampled_elements = 64, collective_warm_ups = 5;

Status all_to_all(const Nccl& nccl, ncclComm_t communicator, const CollectivePlace& place, const float* from, float* to,
                  cudaStream_t stream) {
  const auto part = static_cast<std::size_t>(place.elements / place.ranks);
  PLUMBLINE_TRY(nccl.outcome(nccl.group_start(), "ncclGroupStart"));
  for (int peer = 0; peer < place.ranks; ++peer) {
    const std::size_t at = part * static_cast<std::size_t>(peer);
    PLUMBLINE_TRY(nccl.outcome(nccl.send(from + at, part, ncclFloat32, peer, communicator, stream), "ncclSend"));
    PLUMBLINE_TRY(nccl.outcome(nccl.receive(to + at, part, ncclFloat32, peer, communicator, stream), "ncclRecv"));
  }
  return nccl.outcome(nccl.group_end(), "ncclGroupEnd");
}

Status enqueue(const Nccl& nccl, ncclComm_t communicator, const CollectivePlace& place, const float* from, float* to,
               cudaStream_t stream) {
  const auto all = static_cast<std::size_t>(place.elements);
  const auto part = static_cast<std::size_t>(place.elements / place.ranks);
  if (place.op == "all_to_all") return all_to_all(nccl, communicator, place, from, to, stream);
  if (place.op == "all_reduce")
    return nccl.outcome(nccl.all_reduce(from, to, all, ncclFloat32, ncclSum, communicator, stream), "ncclAllReduce");
  if (place.op == "all_gather")
    return nccl.outcome(nccl.all_gather(from, to, part, ncclFloat32, communicator, stream), "ncclAllGather");
  return nccl.outcome(nccl.reduce_scatter(from, to, part, ncclFloat32, ncclSum, communicator, stream),
                      "ncclReduceScatter");
}

Status compare(const CollectivePlace& place, const float* got, CheckOutcome& result) {
  const auto input = [](int rank, std::int64_t index) {
    return static_cast<double>(
        random_normal(seed_input + static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)));
  };
  Comparison comparison;
  for (const std::int64_t index : sampled_indices(elements_got(place), sampled_elements, seed_elements)) {
    std::vector<float> value;
    PLUMBLINE_TRY(fetch(got + index, 1, value));
    comparison.add(value[0], expected_element(place, index, input));
  }
  result = comparison.outcome(fp32_tolerance);
  return passed(result);
}

}  // namespace

class Collectives::Collective final : public CaseRunner {
 public:
  Collective(const KernelCase& what, Toolbox& tools, int samples, Collectives& all)
      : CaseRunner(what, tools, samples), all_(all) {}

  Status prepare() override {
    const ControlChannel& channel = all_.channel_;
    if (what_.ranks != channel.ranks())
      return {"needs " + std::to_string(what_.ranks) + " ranks, there are " + std::to_string(channel.ranks()) +
              " (one process each, started by torchrun, srun or mpirun)"};
    PLUMBLINE_TRY(open());
    place_ = {what_.op, channel.rank(), channel.ranks(), what_.bytes / 4};
    PLUMBLINE_TRY(from_.allocate(elements_given(place_) * 4));
    PLUMBLINE_TRY(to_.allocate(elements_got(place_) * 4));
    const std::uint64_t seed = seed_input + static_cast<std::uint64_t>(channel.rank());
    PLUMBLINE_TRY(outcome(fill_float(from_.as<float>(), elements_given(place_), seed, 1.0f, tools_.stream), "filling"));
    // The number of warm-ups is the same on every rank: it must not depend on what one rank measured.
    for (int i = 0; i < collective_warm_ups; ++i) PLUMBLINE_TRY(run(tools_.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "running the collective"));
    int version = 0;
    all_.state_->nccl->version(&version);
    Findings& found = findings_.front();
    found.algorithm = nlohmann::ordered_json{{"library", "nccl"}, {"version", version}}.dump();
    found.note =
        channel.ranks() == 1 ? "one rank: no link was used" : "bytes are those that the link of one rank carries";
    return compare(place_, to_.as<float>(), found.check.emplace());
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    PLUMBLINE_TRY(sample_hot([this](cudaStream_t on) { return run(on); }, samples_, tools_.stream, times[0],
                             [this] { read_clock(tools_.stream, 0); }));
    finish_clock(0);
    return {};
  }

 private:
  Status run(cudaStream_t on) const {
    return enqueue(*all_.state_->nccl, all_.state_->communicator, place_, from_.as<float>(), to_.as<float>(), on);
  }

  Status open() {
    if (all_.state_) return {};
    auto state = std::make_unique<State>();
    std::string missing;
    state->nccl = Nccl::open(tools_.folders, missing);
    if (!state->nccl) return {"missing library: " + missing};
    ncclUniqueId id{};
    if (all_.channel_.rank() == 0) PLUMBLINE_TRY(state->nccl->outcome(state->nccl->unique_id(&id), "ncclGetUniqueId"));
    const auto bytes = all_.channel_.broadcast({id.internal, sizeof id.internal});
    if (!bytes) return {to_string(bytes.error())};
    std::ranges::copy(*bytes, id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    PLUMBLINE_TRY(state->nccl->outcome(
        state->nccl->init(&state->communicator, all_.channel_.ranks(), id, all_.channel_.rank(), &config),
        "ncclCommInitRankConfig"));
    all_.state_ = std::move(state);
    return {};
  }

  Collectives& all_;
  CollectivePlace place_;
  DeviceMemory from_, to_;
};

Collectives::Collectives(ControlChannel& channel) : channel_(channel) {}

Collectives::~Collectives() = default;

std::unique_ptr<CaseRunner> Collectives::make_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<Collective>(what, tools, samples, *this);
}

}  // namespace plumbline::real::cuda
