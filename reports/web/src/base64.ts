type Decode = (base64: string) => Uint8Array<ArrayBuffer>;
const builtIn = (Uint8Array as unknown as { fromBase64?: Decode }).fromBase64; // of browsers since 2025

function decode(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export const bytesOf: Decode = (base64) => builtIn?.call(Uint8Array, base64) ?? decode(base64);
