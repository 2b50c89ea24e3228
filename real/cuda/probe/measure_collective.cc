// Collectives between ranks through NCCL. Alone, a rank exercises the path and no link.
#include "real/cuda/probe/measure_collective.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/probe/collective.h"
#include "real/cuda/probe/comparison.h"
#include "real/cuda/probe/timing.h"
#include "real/cuda/probe/transfer.h"
#include "real/cuda/vendor/nccl.h"

namespace plumbline::real::cuda {

struct Collectives::State {
  std::unique_ptr<Nccl> nccl;
  ncclComm_t communicator = nullptr;

  ~State() {
    if (communicator != nullptr) nccl->destroy(communicator);
  }
};

namespace {

constexpr std::uint64_t seed_input = 61, seed_elements = 71;  // the input of rank r: seed_input + r
constexpr int sampled = 64, warm_ups = 5;
constexpr double rendezvous_seconds = 60;

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
  if (place.op == "all_reduce") {
    return nccl.outcome(nccl.all_reduce(from, to, all, ncclFloat32, ncclSum, communicator, stream), "ncclAllReduce");
  }
  if (place.op == "all_gather") {
    return nccl.outcome(nccl.all_gather(from, to, part, ncclFloat32, communicator, stream), "ncclAllGather");
  }
  return nccl.outcome(nccl.reduce_scatter(from, to, part, ncclFloat32, ncclSum, communicator, stream),
                      "ncclReduceScatter");
}

Status compare(const CollectivePlace& place, const float* got, CheckOutcome& result) {
  const auto input = [](int rank, std::int64_t index) {
    return static_cast<double>(
        random_normal(seed_input + static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)));
  };
  Comparison comparison;
  for (const std::int64_t index : sampled_indices(elements_got(place), sampled, seed_elements)) {
    std::vector<float> value;
    PLUMBLINE_TRY(fetch(got + index, 1, value));
    comparison.add(value[0], expected_element(place, index, input));
  }
  result = comparison.outcome(fp32_tolerance);
  return passed(result);
}

}  // namespace

Collectives::Collectives(World world) : world_(std::move(world)) {}

Collectives::~Collectives() = default;

Status Collectives::open(const std::vector<std::string>& folders) {
  if (state_) return {};
  auto state = std::make_unique<State>();
  std::string missing;
  state->nccl = Nccl::open(folders, missing);
  if (!state->nccl) return {"missing library: " + missing};
  ncclUniqueId id{};
  if (world_.rank == 0) PLUMBLINE_TRY(state->nccl->outcome(state->nccl->unique_id(&id), "ncclGetUniqueId"));
  std::string bytes(id.internal, sizeof id.internal);
  if (const std::string problem = share_bytes(world_, rendezvous_seconds, bytes); !problem.empty()) return {problem};
  if (bytes.size() != sizeof id.internal) return {world_.rendezvous + " holds no id of NCCL"};
  std::copy(bytes.begin(), bytes.end(), id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  PLUMBLINE_TRY(state->nccl->outcome(state->nccl->init(&state->communicator, world_.size, id, world_.rank, &config),
                                     "ncclCommInitRankConfig"));
  // Every rank has joined, so every rank has read the file.
  if (world_.rank == 0 && world_.size > 1) std::remove(world_.rendezvous.c_str());
  state_ = std::move(state);
  return {};
}

Status Collectives::measure(const Case& what, const MeasureOptions& options, Toolbox& tools,
                            std::vector<Measurement>& results) {
  if (what.ranks != world_.size) {
    return {"needs " + std::to_string(what.ranks) + " ranks, there are " + std::to_string(world_.size) +
            " (one process each, with RANK, WORLD_SIZE, LOCAL_RANK and --rendezvous)"};
  }
  PLUMBLINE_TRY(open(tools.folders));
  const CollectivePlace place = {what.op, world_.rank, world_.size, what.bytes / 4};
  DeviceMemory from, to;
  PLUMBLINE_TRY(from.allocate(elements_given(place) * 4));
  PLUMBLINE_TRY(to.allocate(elements_got(place) * 4));
  const std::uint64_t seed = seed_input + static_cast<std::uint64_t>(world_.rank);
  PLUMBLINE_TRY(outcome(fill_float(from.as<float>(), elements_given(place), seed, 1.0f, tools.stream), "filling"));
  const Enqueue once = [&](cudaStream_t on) {
    return enqueue(*state_->nccl, state_->communicator, place, from.as<float>(), to.as<float>(), on);
  };
  // As often on every rank: nothing here may depend on what one of them saw.
  for (int i = 0; i < warm_ups; ++i) PLUMBLINE_TRY(once(tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the collective"));
  std::vector<Measurement> measured = blank_measurements(what);
  Measurement& hot = measured.front();
  PLUMBLINE_TRY(sample_hot(once, options.samples, tools.stream, hot.samples_us,
                           [&] { read_clock(tools, tools.stream, hot.clock); }));
  finish_clock(tools, hot.clock);
  CheckOutcome check;
  PLUMBLINE_TRY(compare(place, to.as<float>(), check));
  hot.check = check;
  int version = 0;
  state_->nccl->version(&version);
  hot.algorithm.text("library", "nccl").integer("version", version);
  hot.work.bytes = bus_bytes(what.op, static_cast<double>(what.bytes), world_.size);
  hot.note = world_.size == 1 ? "one rank: no link was used" : "bytes are those that the link of one rank carries";
  results.push_back(std::move(hot));
  return {};
}

}  // namespace plumbline::real::cuda
