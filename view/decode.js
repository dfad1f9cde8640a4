// SPDX-License-Identifier: MIT
// Pieces of data: base64, perhaps compressed, decoded when first asked for.
// src/view/pack.h tells the form of numbers.
"use strict";

const decoded = new Map(); // name: promise of bytes

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64)
    return Uint8Array.fromBase64(text);
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++)
    bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  if (typeof DecompressionStream === "undefined")
    throw new Error("This browser cannot decompress; use one of 2023 or later.");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The bytes of a piece. Its text is dropped from the page once it is decoded.
function piece(name) {
  if (!decoded.has(name)) {
    const element = document.getElementById("p." + name);
    if (!element)
      throw new Error("The page lacks a piece: " + name);
    const bytes = bytesOfBase64(element.textContent);
    const made = element.dataset.form === "deflate" ? inflate(bytes) : Promise.resolve(bytes);
    decoded.set(name, made);
    element.remove();
  }
  return decoded.get(name);
}

// Reads out.length numbers, seven bits a byte, into out.
function readNumbers(bytes, out) {
  let at = 0;
  for (let i = 0; i < out.length; i++) {
    let byte = bytes[at++];
    if (byte < 128) {
      out[i] = byte;
      continue;
    }
    let value = byte & 127, unit = 128;
    do {
      byte = bytes[at++];
      value += (byte & 127) * unit;
      unit *= 128;
    } while (byte >= 128);
    out[i] = value;
  }
  return out;
}

// The same for differences: small ones of either sign were folded to be short.
function readSteps(bytes, out, run = out.length) {
  const folded = readNumbers(bytes, new Float64Array(out.length));
  let last = 0;
  for (let i = 0; i < folded.length; i++) {
    if (i % run === 0)
      last = 0;
    const half = Math.floor(folded[i] / 2);
    last += folded[i] === 2 * half ? half : -half - 1;
    out[i] = last;
  }
  return out;
}

async function numbers(name, array) {
  return readNumbers(await piece(name), array);
}

async function steps(name, array, run) {
  return readSteps(await piece(name), array, run);
}
