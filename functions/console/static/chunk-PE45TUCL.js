function o(t,r){if(!r.temporary)return 3e4;let e=Math.min(1e3*2**Math.min(t-1,5),3e4);return Math.max(e,r.retryAfter*1e3)}export{o as a};
