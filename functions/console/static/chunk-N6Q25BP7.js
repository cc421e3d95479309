var n=e=>Math.min(e*1e3,6e4);function o(e,t){if(!t.temporary)return 3e4;let r=Math.min(1e3*2**Math.min(e-1,5),3e4);return Math.max(r,n(t.retryAfter))}export{n as a,o as b};
