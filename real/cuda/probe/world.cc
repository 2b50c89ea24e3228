#include "real/cuda/probe/world.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace plumbline::real::cuda {

namespace {

// `missing` where the variable is not set.
int number(const char* name, int missing, std::string& error) {
  const char* text = std::getenv(name);
  if (text == nullptr) return missing;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || value < 0) error = std::string(name) + "='" + text + "' is no number";
  return value;
}

// Written beside it and linked: nobody reads half of it, and a file that is there already is not replaced.
std::string write(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + "." + std::to_string(getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << bytes;
  file.close();
  const bool linked = file.good() && link(temporary.c_str(), path.c_str()) == 0;
  const std::string reason = std::strerror(errno);
  unlink(temporary.c_str());
  return linked ? "" : "--rendezvous " + path + " cannot be made: " + reason;
}

}  // namespace

World world_from_environment(std::string& error) {
  World world;
  world.rank = number("RANK", 0, error);
  world.size = number("WORLD_SIZE", 1, error);
  world.local_rank = number("LOCAL_RANK", 0, error);
  if (error.empty() && world.rank >= world.size) {
    error = "RANK=" + std::to_string(world.rank) + " is none of the ranks of WORLD_SIZE=" + std::to_string(world.size);
  }
  return world;
}

std::string share_bytes(const World& world, double timeout_seconds, std::string& bytes) {
  if (world.size == 1) return "";
  if (world.rendezvous.empty()) return "several ranks need --rendezvous FILE, a path that does not exist yet";
  if (world.rank == 0) return write(world.rendezvous, bytes);
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds pause(20);
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < timeout_seconds) {
    if (std::ifstream file(world.rendezvous, std::ios::binary); file) {
      std::ostringstream text;
      text << file.rdbuf();
      bytes = text.str();
      return "";
    }
    std::this_thread::sleep_for(pause);
  }
  return "rank 0 did not come: it wrote no " + world.rendezvous;
}

}  // namespace plumbline::real::cuda
