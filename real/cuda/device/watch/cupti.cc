#include "real/cuda/device/watch/cupti.h"

#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {
namespace {

constexpr CUpti_ActivityKind recorded[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMSET};
// The size of each buffer that CUPTI fills: some 40,000 kernels.
constexpr std::size_t buffer_bytes = std::size_t{8} << 20;
constexpr std::size_t buffer_alignment = 8;

KernelActivity activity_of(const CUpti_ActivityKernel10& kernel) {
  return {.name = kernel.name == nullptr ? "kernel" : kernel.name,
          .stream = kernel.streamId,
          .start_ns = kernel.start,
          .end_ns = kernel.end,
          .blocks = static_cast<std::uint32_t>(kernel.gridX * kernel.gridY * kernel.gridZ),
          .threads = static_cast<std::uint32_t>(kernel.blockX * kernel.blockY * kernel.blockZ),
          .registers = kernel.registersPerThread,
          .shared_bytes = static_cast<std::uint32_t>(kernel.staticSharedMemory + kernel.dynamicSharedMemory)};
}

template <class Record>
KernelActivity transfer_of(const Record& record, const char* name) {
  return {
      .name = name, .stream = record.streamId, .start_ns = record.start, .end_ns = record.end, .bytes = record.bytes};
}

}  // namespace

#define CUPTI_FUNCTIONS(DO)                              \
  DO(enable, cuptiActivityEnable)                        \
  DO(disable, cuptiActivityDisable)                      \
  DO(flush, cuptiActivityFlushAll)                       \
  DO(next, cuptiActivityGetNextRecord)                   \
  DO(register_callbacks, cuptiActivityRegisterCallbacks) \
  DO(result_string, cuptiGetResultString)

struct KernelRecorder::State {
  std::shared_ptr<Library> library;
  CUPTI_FUNCTIONS(PLUMBLINE_FUNCTION_MEMBER)
  std::mutex mutex;
  std::vector<KernelActivity> activities;

  // CUPTI's callbacks have no user data, so that the only recorder is found here.
  static std::atomic<State*>& current() {
    static std::atomic<State*> state{nullptr};
    return state;
  }

  Status checked(CUptiResult result, const char* doing) const {
    if (result == CUPTI_SUCCESS) return {};
    const char* text = nullptr;
    if (result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
    return {std::string(doing) + " failed: " + text};
  }

  static void CUPTIAPI request(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
    *size = *buffer == nullptr ? 0 : buffer_bytes;
    *records = 0;  // no limit
  }

  static void CUPTIAPI complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    if (State* state = current()) state->take(buffer, valid);
    std::free(buffer);
  }

  void take(std::uint8_t* buffer, std::size_t valid) {
    const std::scoped_lock lock(mutex);
    for (CUpti_Activity* record = nullptr; next(buffer, valid, &record) == CUPTI_SUCCESS;) {
      switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        case CUPTI_ACTIVITY_KIND_KERNEL:
          activities.push_back(activity_of(*reinterpret_cast<const CUpti_ActivityKernel10*>(record)));
          break;
        case CUPTI_ACTIVITY_KIND_MEMCPY:
          activities.push_back(transfer_of(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(record), "copy"));
          break;
        case CUPTI_ACTIVITY_KIND_MEMSET:
          activities.push_back(transfer_of(*reinterpret_cast<const CUpti_ActivityMemset4*>(record), "fill"));
          break;
        default:
          break;
      }
    }
  }
};

KernelRecorder::KernelRecorder(std::unique_ptr<State> state) : state_(std::move(state)) {}

KernelRecorder::~KernelRecorder() { State::current() = nullptr; }

std::unique_ptr<KernelRecorder> KernelRecorder::open(const std::vector<std::string>& folders, std::string& error) {
  auto state = std::make_unique<State>();
  state->library = Library::open(known_library("CUPTI"), folders, error);
  if (!state->library) return nullptr;
  bool complete = true;
#define LOAD(member, name) complete &= state->library->load(state->member, #name);
  CUPTI_FUNCTIONS(LOAD)
#undef LOAD
  if (!complete) {
    error = "CUPTI (" + state->library->path() + ") lacks functions of this version";
    return nullptr;
  }
  State* none = nullptr;
  if (!State::current().compare_exchange_strong(none, state.get())) {
    error = "kernels are being recorded already";
    return nullptr;
  }
  std::unique_ptr<KernelRecorder> recorder(new KernelRecorder(std::move(state)));
  const Status ready = recorder->state_->checked(recorder->state_->register_callbacks(State::request, State::complete),
                                                 "recording kernels");
  error = ready.failure;
  return ready.ok() ? std::move(recorder) : nullptr;
}

Status KernelRecorder::start() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->activities.clear();
  }
  for (const CUpti_ActivityKind kind : recorded)
    PLUMBLINE_TRY(state_->checked(state_->enable(kind), "recording kernels"));
  return {};
}

Status KernelRecorder::stop(std::vector<KernelActivity>& activities) {
  PLUMBLINE_TRY(state_->checked(state_->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "reading the recorded kernels"));
  for (const CUpti_ActivityKind kind : recorded)
    PLUMBLINE_TRY(state_->checked(state_->disable(kind), "recording kernels"));
  const std::scoped_lock lock(state_->mutex);
  activities = std::move(state_->activities);
  return {};
}

}  // namespace plumbline::real::cuda
