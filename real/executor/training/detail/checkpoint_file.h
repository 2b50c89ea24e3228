// One rank's file of a checkpoint: written once, verified before any of it is used. A header identifies the run and
// gives the position of each piece of the state:
//
// "PLUMBCKP" (8 bytes), version (u32), CRC-32 of the body (u32), bytes of the body (u64), body: step (i64), rank (i32),
// ranks (i32), fingerprint (text), number of pieces (u32), and of each piece: name (text), elements (u64), offset in
// the file (u64, bytes), CRC-32 of its data (u32). A text is its length (u32) and its bytes. The data follow the body,
// piece after piece, as floats of 32 bits. All numbers are little-endian.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

inline constexpr std::string_view checkpoint_magic = "PLUMBCKP";
inline constexpr std::uint32_t checkpoint_version = 1;
inline constexpr std::uint64_t checkpoint_preamble_bytes = 24;  // before the body

// Identifies the run that wrote a checkpoint. A file of another plan, model or rank is refused.
struct CheckpointIdentity {
  std::int64_t step = 0;  // trained steps
  std::int32_t rank = 0, ranks = 1;
  std::string fingerprint;  // lines that differ where plan or model differ
  bool operator==(const CheckpointIdentity&) const = default;
};

struct CheckpointPiece {
  std::string name;
  std::uint64_t elements = 0, offset = 0;
  std::uint32_t crc = 0;
};

struct CheckpointHeader {
  CheckpointIdentity identity;
  std::vector<CheckpointPiece> pieces;
};

std::string encode_body(const CheckpointHeader& header);
// Returns nullopt where the bytes are not a valid body.
std::optional<CheckpointHeader> decode_body(std::string_view bytes);

struct CheckpointPreamble {
  std::uint32_t version = checkpoint_version;
  std::uint32_t crc = 0;  // of the body, which holds the CRC-32 of all data
  std::uint64_t body_bytes = 0;
};
std::string encode_preamble(const CheckpointPreamble& preamble);
// Returns nullopt where the magic is missing.
std::optional<CheckpointPreamble> decode_preamble(std::string_view bytes);

// Returns the CRC-32 of ISO 3309, as zlib computes it.
std::uint32_t crc32_of(std::string_view bytes);

// Return input errors of a checkpoint file, with a remedy.
tl::unexpected<model::Error> damaged_checkpoint(const std::string& path, const std::string& what);
tl::unexpected<model::Error> other_version(const std::string& path, std::int64_t version);

// Writes all pieces, one at a time through host memory, and waits for the disk. Returns the CRC-32 of the header, which
// covers those of the data. Input error when writing fails.
model::Result<std::uint32_t> write_checkpoint_file(const std::string& path, const CheckpointIdentity& identity,
                                                   const std::vector<StatePiece>& state, Device& device);

class CheckpointFile {
 public:
  // Checks the header, its version and the file's length. Input errors give the reason, truncated piece and remedy.
  static model::Result<CheckpointFile> open(const std::string& path);

  const CheckpointHeader& header() const { return header_; }
  std::uint32_t crc() const { return crc_; }
  // Returns nullptr when there is no piece of that name.
  const CheckpointPiece* find(std::string_view name) const;
  // Returns the data of a piece; input error when their CRC-32 does not match.
  model::Result<std::vector<float>> read(const CheckpointPiece& piece);

 private:
  CheckpointFile(std::string path, std::ifstream stream) : path_(std::move(path)), stream_(std::move(stream)) {}
  model::Result<void> read_header();
  model::Result<void> check_extent(std::uint64_t end_of_header, std::uint64_t bytes) const;

  std::string path_;
  std::ifstream stream_;
  CheckpointHeader header_;
  std::uint32_t crc_ = 0;
};

}  // namespace plumbline::real
