#include "real/cuda/device/watch/clock_sampler.h"

#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace plumbline::real::cuda {
namespace {

template <class Value>
std::optional<Value> mean(const std::vector<ClockReading>& readings, std::optional<Value> ClockReading::*member) {
  double sum = 0;
  int count = 0;
  for (const ClockReading& reading : readings)
    if (const auto& value = reading.*member) sum += static_cast<double>(*value), ++count;
  if (count == 0) return std::nullopt;
  if constexpr (std::is_integral_v<Value>) return static_cast<Value>(std::lround(sum / count));
  return static_cast<Value>(sum / count);
}

std::optional<std::string> reasons(const std::vector<ClockReading>& readings) {
  std::set<std::string> words;
  bool known = false;
  for (const ClockReading& reading : readings) {
    if (!reading.throttle) continue;
    known = true;
    std::istringstream text(*reading.throttle);
    for (std::string word; std::getline(text, word, '|');)
      if (word != "none") words.insert(word);
  }
  if (!known) return std::nullopt;
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : "|") + word;
  return joined.empty() ? "none" : joined;
}

}  // namespace

ClockReading mean_of(const std::vector<ClockReading>& readings) {
  ClockReading result;
  result.sm_mhz = mean(readings, &ClockReading::sm_mhz);
  result.memory_mhz = mean(readings, &ClockReading::memory_mhz);
  result.power_w = mean(readings, &ClockReading::power_w);
  result.temperature_c = mean(readings, &ClockReading::temperature_c);
  result.busy = mean(readings, &ClockReading::busy);
  result.throttle = reasons(readings);
  return result;
}

ClockSampler::ClockSampler(std::function<ClockReading()> read, std::chrono::milliseconds pause)
    : read_(std::move(read)), pause_(pause), thread_([this] { sample(); }) {}

ClockSampler::~ClockSampler() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

ClockReading ClockSampler::take() {
  const std::scoped_lock lock(mutex_);
  if (!readings_.empty()) last_ = mean_of(readings_);
  readings_.clear();
  return last_;
}

void ClockSampler::sample() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    ClockReading reading = read_();
    lock.lock();
    readings_.push_back(std::move(reading));
    stopped_.wait_for(lock, pause_, [this] { return stop_; });
  }
}

}  // namespace plumbline::real::cuda
