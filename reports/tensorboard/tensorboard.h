// Figures of a training in TensorBoard's format: a file of events, each with the scalars and histograms of one step.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::reports {

struct BoardScalar {
  std::string tag;  // "loss", "time/step_s": the part before a slash is the group
  double value = 0;
};

struct BoardHistogram {
  std::string tag;
  std::vector<double> values;  // finite; at least one
};

class TensorBoard {
 public:
  // Creates a file FOLDER/events.out.tfevents.<seconds>.<host>.plumbline, and the folder when it is missing. wall_time
  // is in seconds since 1970. create() and write() return an input error when the file cannot be written.
  static model::Result<TensorBoard> create(const std::string& folder, double wall_time);

  // Writes one event and flushes it, so that a board shows it while the training runs.
  model::Result<void> write(std::int64_t step, double wall_time, const std::vector<BoardScalar>& scalars,
                            const std::vector<BoardHistogram>& histograms = {});

  const std::string& path() const { return path_; }

 private:
  TensorBoard(std::string path, std::ofstream stream) : path_(std::move(path)), stream_(std::move(stream)) {}
  model::Result<void> append(const std::string& event);

  std::string path_;
  std::ofstream stream_;
};

// Returns the checksum of its records: CRC-32C (RFC 3720, section 12.1).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace plumbline::reports
