import{U as n}from"./chunk-JVF7E2JX.js";var a=e=>`/api/v1/agents/${encodeURIComponent(e)}`,i=(e,t,s={})=>n(t===""?["agents",e]:["agents",e,t],s);export{a,i as b};
