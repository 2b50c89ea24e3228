/** The slots of a schedule in words; their colours are slot-F and so on. */
export const slotWords: Record<string, string> = {
  F: "F forward", B: "B backward", I: "I input gradient", W: "W weight gradient", FB: "FB overlapped pair",
};
